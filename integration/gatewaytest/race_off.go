//go:build !race

package gatewaytest

func raceFlags() []string { return nil }

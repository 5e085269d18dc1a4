//go:build race

package gatewaytest

// raceFlags builds the processes under test with the race detector when the
// tests themselves have it.
func raceFlags() []string { return []string{"-race"} }

package main

import (
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/gateway"
)

func newBackends() *cobra.Command {
	var admin adminFlags
	cmd := &cobra.Command{
		Use:   "backends [NAME]",
		Short: "Show a running gateway's backends: their endpoints and breakers",
		Long: `Show the backends of a running gateway, or one of them, as its admin port tells
of them: each endpoint with its load and whether calls go to it, and each breaker
that calls have passed, with why it opened and when it lets the next call
through.`,
		Example: `  gateway backends
  gateway backends shop --admin 10.0.0.7:9091
  gateway backends -c etc/gateway.yaml --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q", args[1])
			}
			return nil
		},
	}
	admin.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list := []gateway.BackendView{}
		if len(args) == 1 {
			list = append(list, gateway.BackendView{})
			if err := admin.ask(cmd.Context(), "/backends/"+url.PathEscape(args[0]), nil, &list[0]); err != nil {
				return err
			}
		} else {
			var answer struct {
				Backends []gateway.BackendView `json:"backends"`
			}
			if err := admin.ask(cmd.Context(), "/backends", nil, &answer); err != nil {
				return err
			}
			list = append(list, answer.Backends...)
		}
		if *format == outputJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return printBackends(cmd.OutOrStdout(), list)
	}
	return cmd
}

func printBackends(w io.Writer, list []gateway.BackendView) error {
	var backends, endpoints, breakers [][]string
	for i := range list {
		b := &list[i]
		backends = append(backends, []string{
			b.Name, healthText(b.Healthy), b.Discovery, b.Target, strconv.Itoa(b.Concurrency.InFlight), limitText(b.Concurrency.Limit),
			strconv.Itoa(b.RetryBudget),
		})
		for j := range b.Endpoints {
			endpoints = append(endpoints, endpointRow(b.Name, &b.Endpoints[j]))
		}
		for j := range b.Breakers {
			breakers = append(breakers, breakerRow(b.Name, &b.Breakers[j]))
		}
	}
	if err := printTable(w, []string{"BACKEND", "HEALTH", "DISCOVERY", "TARGET", "IN-FLIGHT", "LIMIT", "RETRIES"}, backends); err != nil {
		return err
	}
	if len(endpoints) > 0 {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		header := []string{"BACKEND", "ENDPOINT", "ZONE", "WEIGHT", "STATE", "UNTIL", "IN-FLIGHT", "LATENCY", "SUCCESS", "REASON"}
		if err := printTable(w, header, endpoints); err != nil {
			return err
		}
	}
	if len(breakers) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return printTable(w, breakerHeader(), breakers)
}

func endpointRow(backend string, e *gateway.EndpointView) []string {
	return []string{
		backend, e.Address, orDash(e.Zone), strconv.FormatFloat(e.Weight, 'g', 4, 64), string(e.State), whenText(e.NextProbe),
		strconv.FormatInt(e.InFlight, 10), latencyText(e.LatencyMillis), successText(e), orDash(e.Reason),
	}
}

func breakerHeader() []string {
	return []string{"BACKEND", "METHOD", "APP", "BREAKER", "SINCE", "REFUSED", "NEXT-PROBE", "REASON"}
}

func breakerRow(backend string, b *gateway.BreakerView) []string {
	app := "-"
	if b.App != nil {
		app = *b.App
		if app == "" {
			app = "(none)" // callers without a credential
		}
	}
	reason := b.Reason
	if f := b.Forced; f != nil && f.Until != nil {
		reason += " until " + whenText(f.Until)
	}
	return []string{
		backend, b.Method, app, b.State, whenText(&b.Since), shareText(b.RefusedShare), whenText(b.NextProbe), orDash(reason),
	}
}

func healthText(healthy bool) string {
	if healthy {
		return "ok"
	}
	return "unreachable"
}

func limitText(limit int) string {
	if limit == 0 {
		return "-"
	}
	return strconv.Itoa(limit)
}

func latencyText(millis float64) string {
	if millis <= 0 {
		return "-"
	}
	d := time.Duration(millis * float64(time.Millisecond))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// successText is a dash where no call has ended.
func successText(e *gateway.EndpointView) string {
	if e.LatencyMillis <= 0 && (e.SuccessShare == 0 || e.SuccessShare == 1) {
		return "-"
	}
	return shareText(e.SuccessShare)
}

func shareText(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

func whenText(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

package main

import (
	"cmp"
	"net/url"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/gateway"
)

func newBreaker() *cobra.Command {
	return group(&cobra.Command{
		Use:   "breaker",
		Short: "Force breakers of a running gateway open or closed",
		Long: `Force the breakers of one of a running gateway's methods open or closed, or have
them work by themselves again. What is said of one app's calls goes before what
is said of everybody's. It holds until there is another word, until --for is
over, until the backend's configuration changes, or until the gateway stops.

'gateway backends' shows the breakers.`,
		Example: `  gateway breaker open --backend shop --method shop.OrderService/ListOrders --for 5m
  gateway breaker auto --backend shop --method shop.OrderService/ListOrders`,
	},
		newBreakerOrder("open", "open", "Refuse a method's calls",
			`Refuse the calls of a method, whatever its breaker says: everybody's, or one
app's.`,
			`  gateway breaker open --backend shop --method shop.OrderService/ListOrders --for 5m
  gateway breaker open --backend shop --method shop.OrderService/ListOrders --app acme`),
		newBreakerOrder("close", "closed", "Let a method's calls through",
			`Let the calls of a method through, whatever its breaker says: everybody's, or
one app's. Nothing is counted meanwhile.`,
			`  gateway breaker close --backend shop --method shop.OrderService/ListOrders --for 5m`),
		newBreakerOrder("auto", "auto", "Have a method's breakers work by themselves again",
			`Have the breakers of a method, or of one app's calls of it, work by themselves
again. They begin anew, closed and with nothing counted.`,
			`  gateway breaker auto --backend shop --method shop.OrderService/ListOrders`),
	)
}

func newBreakerOrder(name, state, short, long, example string) *cobra.Command {
	var admin adminFlags
	var backend, app string
	var lasts time.Duration
	order := gateway.BreakerOrder{State: state}
	cmd := &cobra.Command{Use: name, Short: short, Long: long, Example: example, Args: noArgs}
	cmd.Flags().StringVar(&backend, "backend", "", "the backend's `NAME`")
	cmd.Flags().StringVar(&order.Method, "method", "", "the `METHOD`: package.Service/Method")
	cmd.Flags().StringVar(&app, "app", "", "only the calls of this `APP`; everybody's without it")
	if state != "auto" {
		cmd.Flags().DurationVar(&lasts, "for", 0, "how long it holds; without it, until there is another word")
	}
	cmd.Flags().StringVar(&order.By, "by", "", "who says so, for the gateway's log (default: the user's name)")
	admin.add(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case backend == "":
			return usagef("--backend is missing")
		case order.Method == "":
			return usagef("--method is missing")
		case cmd.Flags().Changed("for") && lasts <= 0:
			return usagef("--for must be positive")
		case lasts > 0:
			order.For = lasts.String()
		}
		if cmd.Flags().Changed("app") {
			if err := needApp(app); err != nil {
				return err
			}
			order.App = &app
		}
		order.By = cmp.Or(order.By, userName())
		var answer struct {
			Breakers []gateway.BreakerView `json:"breakers"`
		}
		if err := admin.ask(cmd.Context(), "/backends/"+url.PathEscape(backend)+"/breakers", order, &answer); err != nil {
			return err
		}
		if *format == outputJSON {
			return printJSON(cmd.OutOrStdout(), answer.Breakers)
		}
		rows := make([][]string, 0, len(answer.Breakers))
		for i := range answer.Breakers {
			rows = append(rows, breakerRow(backend, &answer.Breakers[i]))
		}
		return printTable(cmd.OutOrStdout(), breakerHeader(), rows)
	}
	return cmd
}

// userName is who runs the command; empty: the system does not say.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

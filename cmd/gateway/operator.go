package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/admin"
)

func newOperator() *cobra.Command {
	return group(&cobra.Command{
		Use:   "operator",
		Short: "Make tokens for operators, who may use the admin port",
		Long: `Make tokens for operators, who may use the admin port. An operator stands in the
configuration, with the hash of the token: admin.operators.`,
		Example: `  gateway operator token > ann.token`,
	}, newOperatorToken())
}

func newOperatorToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make an operator's token and its hash",
		Long: `Make an operator's token and its hash. The token alone goes to standard output;
it is kept nowhere. The hash is for the configuration.`,
		Example: `  gateway operator token > ann.token
  gateway operator token --output json`,
		Args: noArgs,
	}
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		token, hash := admin.NewOperatorToken()
		if *format == outputJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				Token     string `json:"token"`
				TokenHash string `json:"token_hash"`
			}{token, hash})
		}
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "It is shown this once: keep it. For the configuration:\n"+
			"admin:\n  operators:\n    - {name: NAME, role: write, token_hash: %s}\n", hash)
		_, err := fmt.Fprintln(cmd.OutOrStdout(), token)
		return err
	}
	return cmd
}

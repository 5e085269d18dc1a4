package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

func newCheck() *cobra.Command {
	var file string
	var schema bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration, without connecting to anything",
		Long: `Check all of a configuration that can be checked offline: the file itself, the
files that it names, and the routes of backends whose descriptors lie on disk.
All faults are printed at once, as file:line:column: key: message.

With --schema, print the JSON schema of configuration files, for editors.`,
		Example: `  gateway check -c etc/gateway.yaml
  gateway check --schema > gateway.schema.json`,
		Args: noArgs,
	}
	configFlag(cmd, &file)
	format := outputFlag(cmd)
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON schema")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case schema && file != "":
			return usagef("give -c or --schema, not both")
		case schema:
			text, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return err
		case file == "":
			return usagef("-c FILE is missing")
		}
		c, err := check(cmd.Context(), file)
		if err != nil {
			return err
		}
		return c.print(cmd, *format)
	}
	return cmd
}

// checked is the outcome of a check.
type checked struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Backends int      `json:"backends"`
	Routes   int      `json:"routes"`
	Faults   []fault  `json:"faults"`
	Warnings []string `json:"warnings"`
}

type fault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// check finds what is wrong with the file. The error is for a file that cannot
// be read.
func check(ctx context.Context, file string) (*checked, error) {
	c := &checked{File: file, Faults: []fault{}, Warnings: []string{}}
	cfg, err := config.Load(file)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			c.Faults = append(c.Faults, fault(f))
		}
		return c, nil
	case err != nil:
		return nil, err
	}
	c.Backends = len(cfg.Backends)
	c.checkRoutes(ctx, cfg)
	c.OK = len(c.Faults) == 0
	return c, nil
}

// checkRoutes builds the route table as far as descriptors lie on disk.
func (c *checked) checkRoutes(ctx context.Context, cfg *config.Config) {
	inputs := make([]routes.Input, len(cfg.Backends))
	for i, b := range cfg.Backends {
		inputs[i].Backend = b
		if b.Reflection {
			c.Warnings = append(c.Warnings, fmt.Sprintf(
				"backend %s is asked for its descriptors when the gateway runs; its routes were not checked", b.Name))
			continue
		}
		d, err := routes.Load(ctx, b, nil)
		if err != nil {
			key := "protoset"
			if b.Proto != nil {
				key = "proto"
			}
			c.fault(cfg, fmt.Sprintf("backends[%d].%s", i, key), err)
			continue
		}
		inputs[i].Descriptors = d
		for _, w := range d.Warnings() {
			c.Warnings = append(c.Warnings, fmt.Sprintf("backend %s: %s", b.Name, w))
		}
	}
	table, err := routes.Build(inputs, cfg.Routes)
	if err != nil {
		c.fault(cfg, "routes", err)
		return
	}
	c.Routes = len(table.Routes())
}

// fault notes err at key, each of several errors joined in it apart.
func (c *checked) fault(cfg *config.Config, key string, err error) {
	for _, err := range split(err) {
		c.Faults = append(c.Faults, fault{File: c.File, Key: key, Message: err.Error()})
	}
}

// split takes apart what errors.Join put together.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // an error that wraps a joined one must keep its own text
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}

func (c *checked) print(cmd *cobra.Command, format output) error {
	if err := c.write(cmd, format); err != nil {
		return err
	}
	if !c.OK {
		return errReported
	}
	return nil
}

func (c *checked) write(cmd *cobra.Command, format output) error {
	out := cmd.OutOrStdout()
	if format == outputJSON {
		return printJSON(out, c)
	}
	for _, f := range c.Faults {
		if _, err := fmt.Fprintln(out, config.Fault(f)); err != nil {
			return err
		}
	}
	for _, w := range c.Warnings {
		if _, err := fmt.Fprintf(out, "%s: warning: %s\n", c.File, w); err != nil {
			return err
		}
	}
	if !c.OK {
		return nil
	}
	_, err := fmt.Fprintf(out, "%s: ok (%d backends, %d routes)\n", c.File, c.Backends, c.Routes)
	return err
}

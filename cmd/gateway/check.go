package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	File      string   `json:"file"`
	OK        bool     `json:"ok"`
	Backends  int      `json:"backends"`
	Routes    int      `json:"routes"`
	Faults    []fault  `json:"faults"`
	Warnings  []fault  `json:"warnings"`  // allowed, but to be known
	Unchecked []string `json:"unchecked"` // backends whose routes are known only when they are asked
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
	c := &checked{File: file, Faults: []fault{}, Warnings: []fault{}, Unchecked: []string{}}
	cfg, err := config.Inspect(file)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			c.Faults = append(c.Faults, fault(f))
		}
		if cfg != nil {
			c.checkTemplates(cfg)
		}
		return c, nil
	case err != nil:
		return nil, err
	}
	for _, w := range cfg.Warnings(time.Now()) {
		c.Warnings = append(c.Warnings, fault(w))
	}
	c.Backends = len(cfg.Backends)
	c.checkRoutes(ctx, cfg)
	c.OK = len(c.Faults) == 0
	return c, nil
}

// checkTemplates checks what can be known of the config's routes when the rest
// of the file has faults too, so that all are told at once.
func (c *checked) checkTemplates(cfg *config.Config) {
	for _, err := range split(routes.CheckRoutes(cfg.Routes)) {
		var f *routes.Fault
		if errors.As(err, &f) && !slices.ContainsFunc(c.Faults, func(known fault) bool { return strings.HasPrefix(known.Key, f.Key) }) {
			c.Faults = append(c.Faults, fault(cfg.FaultAt(f.Key, f.Err.Error())))
		}
	}
	slices.SortStableFunc(c.Faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// checkRoutes builds the route table as far as descriptors lie on disk.
func (c *checked) checkRoutes(ctx context.Context, cfg *config.Config) {
	inputs := make([]routes.Input, len(cfg.Backends))
	for i, b := range cfg.Backends {
		inputs[i].Backend = b
		if b.Reflection {
			c.Unchecked = append(c.Unchecked, b.Name)
			continue
		}
		key := fmt.Sprintf("backends[%d].protoset", i)
		if b.Proto != nil {
			key = fmt.Sprintf("backends[%d].proto", i)
		}
		d, err := routes.Load(ctx, b, nil)
		if err != nil {
			for _, err := range split(err) {
				c.Faults = append(c.Faults, fault(cfg.FaultAt(key, err.Error())))
			}
			continue
		}
		inputs[i].Descriptors = d
		for _, w := range d.Warnings() {
			c.Warnings = append(c.Warnings, fault(cfg.FaultAt(key, w)))
		}
	}
	table, err := routes.Build(inputs, cfg.Routes)
	c.Routes = len(table.Routes())
	for _, err := range split(err) {
		key, message := "routes", err.Error()
		var f *routes.Fault
		if errors.As(err, &f) && f.Key != "" {
			key, message = f.Key, strings.TrimPrefix(message, f.Key+": ")
		}
		c.Faults = append(c.Faults, fault(cfg.FaultAt(key, message)))
	}
}

// split takes apart what errors.Join put together, also where another error
// wraps that: then each part has the wrapper's text no more.
func split(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}

func (c *checked) print(cmd *cobra.Command, format output) error {
	if err := c.write(cmd.OutOrStdout(), format); err != nil {
		return err
	}
	if !c.OK {
		return errReported
	}
	return nil
}

func (c *checked) write(out io.Writer, format output) error {
	if format == outputJSON {
		return printJSON(out, c)
	}
	var b strings.Builder
	for _, f := range c.Faults {
		fmt.Fprintln(&b, config.Fault(f))
	}
	for _, w := range c.Warnings {
		w.Message = "warning: " + w.Message
		fmt.Fprintln(&b, config.Fault(w))
	}
	if c.OK {
		fmt.Fprintf(&b, "%s: ok: backends: %d, routes: %d", c.File, c.Backends, c.Routes)
		if len(c.Unchecked) > 0 {
			fmt.Fprintf(&b, "; not checked, as the backends are asked for them: routes of %s", strings.Join(c.Unchecked, ", "))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

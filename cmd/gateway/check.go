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
			if routesShow(faults) {
				c.checkRoutes(ctx, cfg)
			}
		}
		c.sort()
		return c, nil
	case err != nil:
		return nil, err
	}
	for _, w := range cfg.Warnings(time.Now()) {
		c.Warnings = append(c.Warnings, fault(w))
	}
	c.Backends = len(cfg.Backends)
	c.checkRoutes(ctx, cfg)
	c.sort()
	c.OK = len(c.Faults) == 0
	return c, nil
}

// sort puts what was found in the order of the file.
func (c *checked) sort() {
	for _, found := range [][]fault{c.Faults, c.Warnings} {
		slices.SortStableFunc(found, func(a, b fault) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
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
		fmt.Fprintf(&b, "%s: ok: backends: %d", c.File, c.Backends)
		if c.Routes > 0 || len(c.Unchecked) == 0 {
			fmt.Fprintf(&b, ", routes: %d", c.Routes)
		}
		if len(c.Unchecked) > 0 {
			fmt.Fprintf(&b, "; not checked, as the backends are asked what they serve: routes of %s", strings.Join(c.Unchecked, ", "))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

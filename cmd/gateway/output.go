package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// output is the value of --output: text for people, json for scripts.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

// outputFlag adds --output to cmd.
func outputFlag(cmd *cobra.Command) *output {
	o := outputText
	cmd.Flags().VarP(&o, "output", "o", "how to print: text or json")
	return &o
}

// String, Set and Type make output a flag's value.
func (o *output) String() string { return string(*o) }

// Set takes the flag's text.
func (o *output) Set(s string) error {
	switch v := output(s); v {
	case outputText, outputJSON:
		*o = v
		return nil
	default:
		return fmt.Errorf("must be %s or %s", outputText, outputJSON)
	}
}

// Type names the value in help texts.
func (o *output) Type() string { return "FORMAT" }

// printJSON writes v, indented, and a newline. HTML is not escaped: path
// templates and notes are for reading.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printTable writes rows under a header, in aligned columns.
func printTable(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		if _, err := fmt.Fprintln(tw, strings.TrimRight(strings.Join(cells, "\t"), "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// printFields writes names and values, a line each; those without a value are
// left out.
func printFields(w io.Writer, fields [][2]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(tw, "%s:\t%s\n", f[0], printable(f[1])); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// isTerminal tells whether whoever reads from r is asked at a terminal.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// printable keeps a cell on its line and in its column, and the terminal as it
// is: a note may hold anything.
func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, cell)
}

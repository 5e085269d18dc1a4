package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Formats of lists, besides text and json.
const (
	outputNDJSON output = "ndjson"
	outputCSV    output = "csv"
)

// listOutput is --output of what may be long.
type listOutput struct{ output }

// listFlag adds it to cmd.
func listFlag(cmd *cobra.Command) *listOutput {
	o := listOutput{outputText}
	cmd.Flags().VarP(&o, "output", "o", "how to print: text, json, ndjson (a line of JSON each) or csv")
	return &o
}

// Set takes the flag's text.
func (o *listOutput) Set(s string) error {
	switch v := output(s); v {
	case outputText, outputJSON, outputNDJSON, outputCSV:
		o.output = v
		return nil
	default:
		return fmt.Errorf("must be %s, %s, %s or %s", outputText, outputJSON, outputNDJSON, outputCSV)
	}
}

// rows prints a list as it comes, page by page: it may be longer than memory is
// large.
type rows struct {
	w       io.Writer
	format  output
	header  []string
	widths  []int // so far
	csv     *csv.Writer
	printed int
}

// newRows begins a list with the names of its columns: in capitals for text, in
// small letters for csv.
func newRows(w io.Writer, format *listOutput, header ...string) *rows {
	return &rows{w: w, format: format.output, header: header, widths: make([]int, len(header)), csv: csv.NewWriter(w)}
}

// page prints rows: their cells, and what each is to be as JSON.
func (r *rows) page(cells [][]string, values []any) error {
	switch r.format {
	case outputText:
		return r.text(cells)
	case outputCSV:
		return r.lines(cells)
	}
	for _, v := range values {
		var err error
		if r.format == outputNDJSON {
			enc := json.NewEncoder(r.w)
			enc.SetEscapeHTML(false)
			err = enc.Encode(v)
		} else {
			err = r.element(v)
		}
		if err != nil {
			return err
		}
		r.printed++
	}
	return nil
}

// element prints an element of an array.
func (r *rows) element(v any) error {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	before := ",\n  "
	if r.printed == 0 {
		before = "[\n  "
	}
	_, err := io.WriteString(r.w, before+strings.TrimSuffix(text.String(), "\n"))
	return err
}

// text prints a table whose columns are as wide as those of any page before.
func (r *rows) text(cells [][]string) error {
	var out strings.Builder
	lines := cells
	if r.printed == 0 {
		lines = append([][]string{r.header}, cells...)
	}
	for i, line := range lines {
		shown := make([]string, len(line))
		for j, cell := range line {
			shown[j] = printable(cell)
			r.widths[j] = max(r.widths[j], len([]rune(shown[j])))
		}
		lines[i] = shown
	}
	for _, line := range lines {
		var row strings.Builder
		for j, cell := range line {
			_, _ = fmt.Fprintf(&row, "%-*s  ", r.widths[j], cell)
		}
		out.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	r.printed += len(lines)
	_, err := io.WriteString(r.w, out.String())
	return err
}

func (r *rows) lines(cells [][]string) error {
	if r.printed == 0 {
		names := make([]string, len(r.header))
		for i, name := range r.header {
			names[i] = strings.ReplaceAll(strings.ToLower(name), "-", "_")
		}
		if err := r.csv.Write(names); err != nil {
			return err
		}
		r.printed++
	}
	for _, line := range cells {
		safe := make([]string, len(line))
		for i, cell := range line {
			safe[i] = csvCell(cell)
		}
		if err := r.csv.Write(safe); err != nil {
			return err
		}
	}
	r.csv.Flush()
	return r.csv.Error()
}

// csvCell keeps a spreadsheet from taking a text for a formula (CWE-1236), and
// leaves "-", which stands for nothing, empty.
func csvCell(cell string) string {
	switch {
	case cell == "-":
		return ""
	case cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])):
		return "'" + cell
	}
	return cell
}

// end prints what is left: the header of a list without rows, the end of an
// array.
func (r *rows) end() error {
	switch {
	case r.format == outputJSON && r.printed == 0:
		_, err := io.WriteString(r.w, "[]\n")
		return err
	case r.format == outputJSON:
		_, err := io.WriteString(r.w, "\n]\n")
		return err
	case r.printed == 0:
		return r.page(nil, nil)
	}
	return nil
}

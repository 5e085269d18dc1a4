// Package gozero reads the configuration of a go-zero gateway (package gateway
// of github.com/zeromicro/go-zero, as of v1.10) as one of rpcgate's.
//
// What it promises:
//
//   - The result has rpcgate's keys and types; what its values are worth, such as
//     whether the files that they name are there, package config finds out.
//   - Nothing is dropped in silence: each key that has no counterpart, or one
//     that works otherwise, has its [Note] with the line. A key that this package
//     does not know is among them.
//   - No more is let in than go-zero's gateway let in, and callers are not let in
//     without a credential unless that is asked for.
//   - Secrets are not copied: where there was one, an environment variable is
//     named.
package gozero

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Options say what go-zero's file cannot.
type Options struct {
	// Whether callers need a credential: required, or none as with go-zero. Empty:
	// required.
	Auth string
}

// Note says what is not as it was.
type Note struct {
	// The line of go-zero's file; 0: it is about the whole.
	Line int
	// The key as the file writes it, such as Upstreams[0].Grpc.App; empty: it is
	// about the whole.
	Key  string
	Text string
}

// String is the note in one line.
func (n Note) String() string {
	switch {
	case n.Key == "":
		return n.Text
	case n.Line == 0:
		return n.Key + ": " + n.Text
	default:
		return fmt.Sprintf("line %d: %s: %s", n.Line, n.Key, n.Text)
	}
}

// Converted is a go-zero gateway's configuration in rpcgate's form.
type Converted struct {
	// The file, with the notes as comments at its head.
	YAML []byte
	// In the order of the lines; those about the whole come last.
	Notes []Note
}

// Convert reads data, YAML or JSON. The error names the lines of what cannot be
// read at all.
func Convert(data []byte, o Options) (*Converted, error) {
	switch o.Auth {
	case "", "required", "none":
	default:
		return nil, fmt.Errorf("auth is required or none, not %q", o.Auth)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not a mapping of keys to values")
	}
	c := &conversion{}
	root := c.section(doc.Content[0], "") // not nil: it is a mapping
	out := c.file(root, o)
	if bytes.Contains(data, []byte("${")) {
		c.note(0, "", "${NAME} is an environment variable's value here in any case, with go-zero by conf.UseEnv only.")
	}
	c.leftOver(root)
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Compare(a.Line, b.Line)
	})
	text, err := write(out, c.notes)
	if err != nil {
		return nil, err
	}
	return &Converted{YAML: text, Notes: c.notes}, nil
}

// conversion collects what there is to say of one file.
type conversion struct {
	notes  []Note
	faults []error
}

func (c *conversion) note(line int, key, format string, args ...any) {
	c.notes = append(c.notes, Note{line, key, fmt.Sprintf(format, args...)})
}

func (c *conversion) fault(line int, key, text string) {
	c.faults = append(c.faults, fmt.Errorf("line %d: %s: %s", line, key, text))
}

// write makes the file, the notes at its head.
func write(out *file, notes []Note) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Made of a go-zero gateway's configuration.\n")
	if len(notes) > 0 {
		b.WriteString("#\n# What is not as it was there:\n")
	}
	for _, n := range notes {
		// A file's own text may stand in a note: no line of it may end the comment.
		b.WriteString("#   - " + strings.Join(strings.FieldsFunc(n.String(), isBreak), " ") + "\n")
	}
	b.WriteString("\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return b.Bytes(), nil
}

// isBreak tells what YAML, or a terminal, may take for the end of a line.
func isBreak(r rune) bool {
	return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029
}

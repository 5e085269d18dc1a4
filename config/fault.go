package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct { //nolint:errname // a fault is a finding, more than an error
	File         string // as it was given to [Load]; empty in a configuration built in code
	Line, Column int    // from 1; both 0 in a configuration built in code
	Key          string // such as backends[0].breaker.kind; empty where the whole file is meant
	Message      string // one line; never holds a secret, nor the value of an environment variable
}

// Error gives the fault as `file:line:column: key: message`, less what is not known.
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		b.WriteByte(':')
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Key != "" {
		b.WriteString(f.Key)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is everything that is wrong with a configuration, in the order of the file.
type Faults []Fault //nolint:errname // as Fault

// Error gives the faults, one a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFaults bounds a report: whoever has more has handed in the wrong file.
const maxFaults = 200

// sorted orders faults by place, and cuts them off at maxFaults.
func (fs Faults) sorted() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(fs) <= maxFaults {
		return fs
	}
	last := fs[maxFaults]
	last.Key, last.Message = "", "and more faults from here on"
	return append(fs[:maxFaults:maxFaults], last)
}

// err is nil where there are no faults.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

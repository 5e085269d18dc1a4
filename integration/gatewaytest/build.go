// Package gatewaytest starts the gateway and the shop backend as processes of
// their own, built from this tree, for tests that signal, pause and kill them.
package gatewaytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binaries are built once a test process, into a directory of their own.
//
//nolint:gochecknoglobals // a build per test would take minutes
var binaries = struct {
	sync.Mutex
	dir   string
	built map[string]error
}{built: map[string]error{}}

// Binary builds the main package at path, relative to the module, and returns
// the file. It has the race detector when the tests have it.
func Binary(tb testing.TB, path string) string {
	tb.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "rpcgate-test-")
		if err != nil {
			tb.Fatalf("making a directory for binaries: %v", err)
		}
		binaries.dir = dir
	}
	out := filepath.Join(binaries.dir, filepath.Base(path))
	err, done := binaries.built[path]
	if !done {
		args := append([]string{"build", "-o", out}, raceFlags()...)
		cmd := exec.CommandContext(context.Background(), "go", append(args, "./"+path)...)
		cmd.Dir = moduleRoot()
		var text []byte
		if text, err = cmd.CombinedOutput(); err != nil {
			tb.Logf("%s", text)
		}
		binaries.built[path] = err
	}
	if err != nil {
		tb.Fatalf("building %s: %v", path, err)
	}
	return out
}

// Main runs m's tests and removes what was built for them. TestMain calls it
// and exits with its result.
func Main(m *testing.M) int {
	code := m.Run()
	binaries.Lock()
	defer binaries.Unlock()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	return code
}

// moduleRoot is the directory of go.mod.
func moduleRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

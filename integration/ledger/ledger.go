// Package ledger starts backends that journal each execution of a call before
// they answer, as processes of their own: whatever becomes of such a process,
// its journal tells afterwards what was done there, and how often.
package ledger

import (
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/process"
)

// Options of a backend.
type Options struct {
	Name string   // in its answers
	Addr string   // host:port; it stays the same over restarts
	Args []string // further flags of ledgerd
	Via  []string // a command line that runs it, such as nsenter's; none: it runs as it is
}

// Backend is an endpoint: one process after the other, with one journal. It ends
// with the test. Its methods are for one goroutine at a time.
type Backend struct {
	*process.Process
	Options

	tb      testing.TB
	journal string
}

// Start starts a backend and waits until it listens.
func Start(tb testing.TB, o Options) *Backend {
	tb.Helper()
	b := &Backend{Options: o, tb: tb, journal: filepath.Join(tb.TempDir(), "journal")}
	b.Again()
	return b
}

// Again starts the next process of an endpoint whose last one has ended, and
// waits until it listens.
func (b *Backend) Again(args ...string) {
	b.tb.Helper()
	b.Launch(args...)
	if err := b.AwaitReady(func() error {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(b.tb.Context(), "tcp", b.Addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		b.tb.Fatal(err)
	}
}

// Launch is Again without the waiting. args are further flags of this process
// alone.
func (b *Backend) Launch(args ...string) {
	b.tb.Helper()
	line := slices.Concat(b.Via, []string{
		gatewaytest.Binary(b.tb, "integration/ledger/ledgerd"), "--name", b.Name, "--listen", b.Addr, "--journal", b.journal,
	}, b.Args, args)
	b.Process = process.Start(b.tb, line[0], line[1:]...)
}

// Terminate has the process leave in order, and waits for its end.
func (b *Backend) Terminate() error {
	b.Signal(syscall.SIGTERM)
	if b.ExitCode() != 0 {
		return errors.New(b.Name + " did not end in order:\n" + b.Output())
	}
	return nil
}

// Journal returns what was executed so far, oldest first.
func (b *Backend) Journal() []Execution {
	b.tb.Helper()
	all, err := readJournal(b.journal)
	if err != nil {
		b.tb.Fatal(err)
	}
	return all
}

// ProtoPath is the folder with the .proto file that describes the backends,
// and ProtoFile the file in it.
func ProtoPath() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "proto")
}

// ProtoFile is the file below [ProtoPath].
const ProtoFile = "ledger.proto"

//go:build !linux || !amd64

package clockstep

import (
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Clock is the wall clock of one process.
type Clock struct{}

// Of skips the test.
func Of(tb testing.TB, _ *process.Process) *Clock {
	tb.Helper()
	tb.Skip("the wall clock of a single process can be set on Linux on amd64 alone")
	return nil
}

// Set does nothing.
func (*Clock) Set(time.Duration) {}

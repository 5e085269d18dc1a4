package redistest

import (
	"testing"
	"time"
)

// limit is how long servers may take to find together.
const limit = 30 * time.Second

// await waits until check returns nil, and fails with its last error.
func await(tb testing.TB, what string, check func() error) {
	tb.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; <-ticker.C {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: %v", what, err)
		}
	}
}

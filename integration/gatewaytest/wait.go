package gatewaytest

import (
	"strings"
	"testing"
	"time"
)

// Limit is how long the tests wait for something that should take moments.
const Limit = 20 * time.Second

// Eventually waits until check returns nil, and fails with its last error.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(Limit)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("did not come about in %v: %v", Limit, err)
		}
		<-ticker.C
	}
}

// lineWith returns the first line of text that has all of parts.
func lineWith(text string, parts ...string) (string, bool) {
next:
	for line := range strings.Lines(text) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		return line, true
	}
	return "", false
}

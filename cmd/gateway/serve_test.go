package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Redis and a backend that are down keep a gateway from nothing but their calls.
func TestServe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(`
http: {address: 127.0.0.1:0}
grpc: {address: 127.0.0.1:0}
admin: {address: 127.0.0.1:0}
redis: {addresses: [127.0.0.1:1]}
backends:
  - {name: down, endpoints: [127.0.0.1:1], reflection: true}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	log, w := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- runHere(ctx, io.Discard, w, "serve", "-c", file)
		_ = w.Close()
	}()

	seen := map[string]bool{}
	for dec := json.NewDecoder(log); ; {
		var line struct{ Msg, Admin string }
		if err := dec.Decode(&line); err != nil {
			break
		}
		seen[line.Msg] = true
		if line.Msg != "serving" {
			continue
		}
		var stdout, stderr bytes.Buffer
		if got := runHere(ctx, &stdout, &stderr, "health", "--admin", line.Admin); got != exitFailed || !strings.Contains(stderr.String(), `"redis":false`) {
			t.Errorf("health without a store: exit status %d, %s%s", got, &stdout, &stderr)
		}
		cancel() // as the first signal does
	}
	if got := <-status; got != exitOK {
		t.Errorf("exit status %d", got)
	}
	if !seen["serving"] || !seen["draining"] {
		t.Errorf("the log has only %v", seen)
	}
}

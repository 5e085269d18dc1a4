package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/integration/redistest"
)

// What became of zRPC's tokens is told as it is, time after time.
func TestImportOfZRPCsTokensIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = rdb.Close() }()
	for _, step := range []struct {
		token, out string
	}{
		{"plain-1", "Imported: 1 created, 0 replaced, 0 kept, 0 refused.\n"},
		{"plain-1", "Imported: 0 created, 0 replaced, 1 kept, 0 refused.\n"},
		{"plain-2", "Imported: 0 created, 1 replaced, 0 kept, 0 refused.\n"},
	} {
		if err := rdb.HSet(t.Context(), "rpc:apps", "legacy", step.token).Err(); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		p := process{stdout: &stdout, stderr: &stderr, takeLogs: func(*slog.Logger) {}}
		args := strings.Fields("token import --from gozero --key rpc:apps --redis " + server.Addr)
		if status := run(t.Context(), p, args); status != exitOK || stdout.String() != step.out {
			t.Errorf("%s: status %d, %q, %q; want %q", step.token, status, &stdout, &stderr, step.out)
		}
	}
}

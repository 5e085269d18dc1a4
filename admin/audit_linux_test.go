package admin_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/config"
)

// A pipe that nobody reads is told, and not waited for.
func TestAuditToAPipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Skip(err)
	}
	log := slog.New(slog.DiscardHandler)
	if _, err := admin.NewAudit(file, log); err == nil {
		t.Error("a pipe without a reader was taken")
	}
	reader, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := admin.NewAudit(file, log)
	if err != nil {
		t.Fatal(err)
	}
	audit.Write(admin.Entry{Method: "piped"})
	text := make([]byte, 4096)
	if n, err := reader.Read(text); err != nil || !bytes.Contains(text[:n], []byte(`"piped"`)) {
		t.Errorf("%q, %v", text[:n], err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	// Its reader gone, no change is let through to the gateway's own endpoints.
	token, hash := admin.NewOperatorToken()
	o := newOperators(t, audit, config.Operator{Name: "ann", Role: "write", TokenHash: config.Secret(hash)})
	if _, err := o.Admit(t.Context(), admin.Request{Token: token}); reason(err) != "AUDIT_UNAVAILABLE" {
		t.Errorf("a change: %v", err)
	}
	if _, err := o.Admit(t.Context(), admin.Request{Token: token, Reads: true}); err != nil {
		t.Errorf("a read: %v", err)
	}
}

// A line that a full disk does not take goes to the log.
func TestAuditToAFullDisk(t *testing.T) {
	t.Parallel()
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	audit, err := admin.NewAudit(full, slog.New(slog.NewJSONHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	audit.Write(admin.Entry{Method: "lost?"})
	if text := out.String(); !strings.Contains(text, "no space left") || !strings.Contains(text, `"method":"lost?"`) {
		t.Error(text)
	}
}

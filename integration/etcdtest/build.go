package etcdtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// program returns the etcd binary. Building it takes a minute, so that it is
// kept in the user's cache folder, under a hash of what it is built from.
func program(tb testing.TB) string {
	tb.Helper()
	binary, err := build(tb.Context())
	if err != nil {
		tb.Fatalf("building etcd from tools/etcd: %v", err)
	}
	return binary
}

func build(ctx context.Context) (string, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return "", err
	}
	version, err := versionOf(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "rpcgate", "etcd-"+version)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "etcd")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}

	// Packages are tested at the same time: one builds, the others wait.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	unfinished := binary + ".unfinished"
	//nolint:gosec // both paths are this module's
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", unfinished, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, os.Rename(unfinished, binary)
}

// sourceDir finds tools/etcd beside this module's go.mod, from whichever module
// the test is run.
func sourceDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rpcgate/rpcgate").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "tools", "etcd"), nil
}

// versionOf hashes what the binary depends on.
func versionOf(source string) (string, error) {
	hash := sha256.New()
	hash.Write([]byte(runtime.Version() + runtime.GOOS + runtime.GOARCH))
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

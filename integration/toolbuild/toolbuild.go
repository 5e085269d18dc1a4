// Package toolbuild builds the programs of the modules under tools/ for tests,
// so that nothing has to be installed.
package toolbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Program returns the binary of a main package, as the module tools/<module>
// has it: "." is that module's own, others are of the modules it requires. It
// fails the test if the package cannot be built.
//
// Building may take a minute, so that binaries are kept in the user's cache
// folder, under a hash of what they are built from.
func Program(tb testing.TB, module, pkg string) string {
	tb.Helper()
	binary, err := build(tb.Context(), module, pkg)
	if err != nil {
		tb.Fatalf("building %s in tools/%s: %v", pkg, module, err)
	}
	return binary
}

// ModuleDir returns the folder of a module that the module tools/<module>
// requires, as Go's module cache has it.
func ModuleDir(tb testing.TB, module, required string) string {
	tb.Helper()
	source, err := sourceDir(tb.Context(), module)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-C", source, "-m", "-f", "{{.Dir}}", required).Output()
	if err != nil {
		tb.Fatalf("finding %s in tools/%s: %v", required, module, err)
	}
	return strings.TrimSpace(string(out))
}

func build(ctx context.Context, module, pkg string) (string, error) {
	source, err := sourceDir(ctx, module)
	if err != nil {
		return "", err
	}
	version, err := versionOf(source, pkg)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	name := module
	if pkg != "." {
		name = path.Base(pkg)
	}
	dir := filepath.Join(cache, "rpcgate", name+"-"+version)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, name)
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
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", unfinished, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, os.Rename(unfinished, binary)
}

// sourceDir finds tools/<module> beside this module's go.mod, from whichever
// module the test is run.
func sourceDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rpcgate/rpcgate").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "tools", module), nil
}

// versionOf hashes what the binary depends on.
func versionOf(source, pkg string) (string, error) {
	hash := sha256.New()
	hash.Write([]byte(runtime.Version() + runtime.GOOS + runtime.GOARCH))
	if pkg != "." {
		hash.Write([]byte(pkg))
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if name == "main.go" && errors.Is(err, fs.ErrNotExist) {
			continue // a module that only pins what it requires
		}
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// Package nodetest runs the tests' JavaScript programs with the packages that
// they import.
package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Program is a folder of JavaScript files with the packages of its
// package-lock.json.
type Program struct {
	// Dir has copies of the folder's files, and node_modules.
	Dir string
	// node is Node itself, which is one of the packages: systems have versions
	// that are too old for some of the others.
	node string
}

// Install installs the packages of the folder source, of the versions that its
// package-lock.json has, unless they are in the user's cache folder. They are
// not put into source itself. A machine without npm fails the test.
func Install(tb testing.TB, source string) *Program {
	tb.Helper()
	modules, err := install(tb.Context(), source)
	if err != nil {
		tb.Fatalf("installing the npm packages of %s: %v", source, err)
	}
	p := &Program{Dir: tb.TempDir(), node: filepath.Join(modules, nodePackage(), "bin", "node")}
	if err := os.Symlink(modules, filepath.Join(p.Dir, "node_modules")); err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(source, "*.*"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		if err := copyFile(file, filepath.Join(p.Dir, filepath.Base(file))); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

// Command is a run of one of the folder's files.
func (p *Program) Command(ctx context.Context, file string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.node, append([]string{file}, args...)...)
	cmd.Dir = p.Dir
	cmd.SysProcAttr = process.DieWithParent()
	return cmd
}

// nodePackage names the npm package that is Node for this machine.
func nodePackage() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return "node-" + runtime.GOOS + "-" + arch
}

// install returns the folder node_modules.
func install(ctx context.Context, source string) (string, error) {
	lockFile := filepath.Join(source, "package-lock.json")
	pinned, err := os.ReadFile(lockFile)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	version := sha256.Sum256(append([]byte(runtime.GOOS+runtime.GOARCH), pinned...))
	dir := filepath.Join(cache, "rpcgate", "npm-"+hex.EncodeToString(version[:8]))
	modules, whole := filepath.Join(dir, "node_modules"), filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return modules, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("%w: the tests need npm, Node's package manager (`make deps`; Debian, Ubuntu: apt-get install npm)", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	// Packages are tested at the same time: one installs, the others wait.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(whole); err == nil {
		return modules, nil
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if err := copyFile(filepath.Join(source, name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	// No package's own script is run: none of them needs it.
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return modules, os.WriteFile(whole, nil, 0o600)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/process"
	"github.com/rpcgate/rpcgate/integration/toolbuild"
)

// Each line that the demo prints works when it is pasted into a shell, in the
// order in which they stand.
func TestDemoLines(t *testing.T) {
	t.Parallel()
	grpcurl := toolbuild.Program(t, "grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	p, env := startDemo(t)
	var lines []string
	for line := range strings.Lines(p.Output()) {
		if strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "grpcurl ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	steps := []struct {
		does   string
		tool   string
		wants  string // in what it prints
		exit   int
		stream bool
	}{
		{"CreateUser", "curl", `"id":"1"`, 0, false},
		{"CreateUser", "grpcurl", `"id": "2"`, 0, false},
		{"GetUser", "curl", `"name":"Ada"`, 0, false},
		{"GetUser", "grpcurl", `"name": "Ada"`, 0, false},
		{"CreateOrder", "curl", `"product":"tea"`, 0, false},
		{"CreateOrder", "grpcurl", `"product": "tea"`, 0, false},
		{"GetOrder", "curl", `"product":"tea"`, 0, false},
		{"GetOrder", "grpcurl", `"product": "tea"`, 0, false},
		{"WatchOrders", "curl", `"product":"tea"`, 0, true},
		{"WatchOrders", "grpcurl", `"product": "tea"`, 0, true},
		{"events", "curl", `data: {"id":"1","userId":"1","product":"tea"}`, 0, true},
		{"Connect", "curl", `"name":"Ada"`, 0, false},
		{"refused", "curl", `"TOKEN_INVALID"`, 0, false},
		{"refused", "grpcurl", `Unauthenticated`, 64 + 16, false},
	}
	if len(lines) != len(steps) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(steps), strings.Join(lines, "\n"))
	}
	for i, step := range steps {
		line := lines[i]
		t.Run(step.does+"/"+step.tool, func(t *testing.T) {
			out, code := runLine(t, line, filepath.Dir(grpcurl), step.wants, step.stream)
			if !strings.HasPrefix(line, step.tool+" ") || !strings.Contains(out, step.wants) || !step.stream && code != step.exit {
				t.Errorf("%s\nexit %d, and %s is not in: %s", line, code, step.wants, out)
			}
		})
	}
	// The page that it names is there.
	out, code := runLine(t, "curl -sS http://"+env["HTTP"]+"/docs/", filepath.Dir(grpcurl), "", false)
	if !strings.Contains(p.Output(), "http://"+env["HTTP"]+"/docs/") || code != 0 || !strings.Contains(out, "swagger-ui") {
		t.Errorf("the documentation: exit %d: %s", code, out)
	}
	// grpcurl lists and describes without a protoset.
	for _, ask := range []string{"list", "describe shop.OrderService"} {
		out, code := runLine(t, "grpcurl -plaintext "+env["GRPC"]+" "+ask, filepath.Dir(grpcurl), "", false)
		if code != 0 || !strings.Contains(out, "shop.OrderService") {
			t.Errorf("grpcurl %s: exit %d: %s", ask, code, out)
		}
	}
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
}

// The env file has what a script needs; SIGINT ends the demo with 0, open
// streams or not.
func TestDemoEnvFile(t *testing.T) {
	t.Parallel()
	p, env := startDemo(t)
	for _, want := range []string{"keeps nothing", env["HTTP"], env["GRPC"], env["ADMIN"], env["REDIS"], env["TOKEN"], "/v1/users/{id}", "/shop.OrderService/WatchOrders"} {
		if !strings.Contains(p.Output(), want) {
			t.Errorf("the demo does not print %s:\n%s", want, p.Output())
		}
	}
	r := &rig{Gateway: &gatewaytest.Gateway{Process: p, HTTP: env["HTTP"], GRPC: env["GRPC"], Admin: env["ADMIN"]}, app: env["APP"], token: env["TOKEN"]}
	r.http1, r.http2, r.conn = httpClient(t, false), httpClient(t, true), dial(t, r.GRPC)
	user := r.call(t, "POST", "/v1/users", `{"name":"Ada"}`)
	user.ok(t, `{"id":"1","name":"Ada"}`)
	issued := gatewaytest.IssueToken(t, env["REDIS"], "another")
	r.do(t, r.http1, "GET", "/v1/users/1", "", "Authorization", "Bearer another."+issued).ok(t, user.Body)
	s := rawStream(t, r.limited(t), r.conn, "/shop.OrderService/WatchOrders")
	_ = s.send("\x08\x01")
	_ = s.CloseSend()
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}

	p.Signal(syscall.SIGINT)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("SIGINT: exit %d: %s", code, p.Output())
	}
	if _, err := s.recv(); err == nil {
		t.Error("the stream goes on")
	}
}

// startDemo starts `gateway demo` on free ports and returns what its env file
// has, as a shell reads it.
func startDemo(t *testing.T) (*process.Process, map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demo env")
	p := gatewaytest.Command(t, "demo", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--env-file", file)
	if err := p.AwaitReady(func() error {
		_, err := os.Stat(file)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for _, name := range []string{"HTTP", "GRPC", "ADMIN", "REDIS", "APP", "TOKEN"} {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf(`set -eu; . %q; printf %%s "$%s"`, file, name)).Output()
		if err != nil || len(out) == 0 {
			t.Fatalf("the env file's %s: %q, %v", name, out, err)
		}
		env[name] = string(out)
	}
	return p, env
}

// runLine runs a line in bash and returns what it printed and its exit status;
// that of a stream is read until it has what is wanted, and is then ended.
func runLine(t *testing.T, line, path, wants string, stream bool) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	// A shell may keep the program as its child: both are ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		out.WriteString(scanner.Text() + "\n")
		if stream && strings.Contains(out.String(), wants) {
			cancel()
		}
	}
	if err := cmd.Wait(); err != nil && !stream {
		var status *exec.ExitError
		if !errors.As(err, &status) {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return out.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

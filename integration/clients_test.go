package integration_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/nodetest"
)

// Cases of integration/clients: those of all clients, and those of clients that
// have streams of requests.
func clientCases(duplex bool) []string {
	cases := []string{
		"unary", "large", "server stream", "error", "error after messages", "wrong token", "deadline", "cancel",
	}
	if duplex {
		cases = append(cases, "client stream", "bidirectional stream")
	}
	return cases
}

// Clients of the protocols that are not made with Go call each kind of method
// with a credential, and check values, headers, trailers, errors with their
// details, deadlines and cancellation (integration/clients).
func TestClientsInOtherLanguages(t *testing.T) {
	t.Parallel()
	node := nodetest.Install(t, "clients")
	b := startClientsBackend(t)
	r := newRig(t, echoConfig(b.Server, ""))
	protoset := b.protoset(t)

	nodeProgram := func(args ...string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd { return node.Command(ctx, args[0], args[1:]...) }
	}
	python := func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, systemPython(t), "clients/python.py")
	}
	for _, tc := range []struct {
		name, addr string
		duplex     bool
		command    func(context.Context) *exec.Cmd
	}{
		{"grpc-js, gRPC port", r.GRPC, true, nodeProgram("grpcjs.mjs")},
		{"grpc-js, HTTP port", r.HTTP, true, nodeProgram("grpcjs.mjs")},
		{"grpcio, gRPC port", r.GRPC, true, python},
		{"grpcio, HTTP port", r.HTTP, true, python},
		{"connect-node, gRPC, gRPC port", r.GRPC, true, nodeProgram("connect.mjs", "grpc", "2", "binary")},
		{"connect-node, gRPC, HTTP port", r.HTTP, true, nodeProgram("connect.mjs", "grpc", "2", "binary", "gzip")},
		{"connect-node, gRPC-Web, h2", r.HTTP, true, nodeProgram("connect.mjs", "grpc-web", "2", "binary")},
		{"connect-node, gRPC-Web, HTTP/1.1", r.HTTP, false, nodeProgram("connect.mjs", "grpc-web", "1.1", "binary", "gzip")},
		{"connect-node, Connect, JSON, h2", r.HTTP, true, nodeProgram("connect.mjs", "connect", "2", "json")},
		{"connect-node, Connect, binary, HTTP/1.1", r.HTTP, false, nodeProgram("connect.mjs", "connect", "1.1", "binary", "gzip")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testLimit)
			defer cancel()
			cmd := tc.command(ctx)
			cmd.Env = append(os.Environ(), "ADDRESS="+tc.addr, "PROTOSET="+protoset, "APP="+r.app, "TOKEN="+r.token)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			allPassed(t, string(out), clientCases(tc.duplex))
			b.sawBothEnds(t)
		})
	}
}

// allPassed checks that a program ran each case; it ends with 0 if those that it
// ran passed.
func allPassed(t *testing.T, output string, cases []string) {
	t.Helper()
	lines := strings.Split(output, "\n")
	for _, name := range cases {
		if !slices.Contains(lines, "ok "+name) {
			t.Errorf("%s was not run", name)
		}
	}
}

// sawBothEnds checks that the backend saw a client's calls end by deadline and
// by cancellation, and the deadline beforehand.
func (b *clientsBackend) sawBothEnds(t *testing.T) {
	t.Helper()
	// A second; gRPC's C library sends a little more than what is left.
	const longest = 1100 * time.Millisecond
	var deadline, cancelled bool
	for range 2 {
		call := waitFor(t, b.waited, "the end of a call")
		deadline = deadline || call.method == "unary" && 0 < call.budget && call.budget <= longest
		cancelled = cancelled || call.method == "server stream" && call.budget == 0
	}
	if !deadline || !cancelled {
		t.Errorf("the backend saw the deadline: %v, the cancellation: %v", deadline, cancelled)
	}
}

// systemPython is the interpreter that has the system's packages, whatever
// others there are.
func systemPython(t *testing.T) string {
	t.Helper()
	const program = "/usr/bin/python3"
	if err := exec.CommandContext(t.Context(), program, "-c", "import grpc").Run(); err != nil {
		t.Fatalf("%s with grpcio: %v; the tests need it (`make deps`; Debian, Ubuntu: apt-get install python3-grpcio)", program, err)
	}
	return program
}

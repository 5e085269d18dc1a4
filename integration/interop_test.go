package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/integration/process"
	"github.com/rpcgate/rpcgate/integration/toolbuild"
)

// gRPC's interoperability client passes through the gateway, with a credential,
// each case that it passes against its own server directly. The other cases of
// its list need Google's accounts, several servers, or ORCA's load reports.
func TestGRPCInterop(t *testing.T) {
	t.Parallel()
	server := startInteropServer(t)
	client := toolbuild.Program(t, "interop", "google.golang.org/grpc/interop/client")
	r := newRig(t, fmt.Sprintf("backends:\n  - name: interop\n    endpoints: [%q]\n    reflection: true\n    services: [grpc.testing.TestService]\n", server))
	for port, addr := range map[string]string{"gRPC port": r.GRPC, "HTTP port": r.HTTP} {
		host, number, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
			"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
			"status_code_and_message", "special_status_message", "custom_metadata",
			"unimplemented_method", "unimplemented_service", "rpc_soak", "channel_soak",
		} {
			t.Run(port+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), testLimit)
				defer cancel()
				out, err := exec.CommandContext(ctx, client, "-server_host", host, "-server_port", number, "-test_case", name,
					"-additional_metadata", fmt.Sprintf("app:%s;token:%s", r.app, r.token)).CombinedOutput()
				if err != nil {
					t.Errorf("%v:\n%s", err, out)
				}
			})
		}
	}
}

// startInteropServer returns its address.
func startInteropServer(t *testing.T) string {
	t.Helper()
	p := process.Start(t, toolbuild.Program(t, "interop", "."))
	var addr string
	if err := p.AwaitReady(func() error {
		line, _, whole := strings.Cut(p.Output(), "\n")
		if !whole {
			return errors.New("it has not told its address")
		}
		addr = line
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return addr
}

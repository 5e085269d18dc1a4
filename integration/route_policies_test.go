package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const (
	echoMethod = "/testbackend.Echo/Unary"
	echoPath   = "/v1/echo"
	// Settings of a backend of which no endpoint is given up, or has fewer calls
	// for what it does.
	neverGiveUp = "breaker: {kind: \"off\"}\nbalancer: {policy: least_request}\nejection: {consecutive_failures: 0, success_deviations: 0}\n" +
		"retry: {backoff: 1ms, budget: {ratio: 1, min_per_second: 1000}}\n"
)

// endpointsConfig is a backend with several endpoints. settings are lines of its
// config.
func endpointsConfig(name, settings string, endpoints ...string) string {
	text := fmt.Sprintf("  - name: %s\n    endpoints: [%s]\n    reflection: true\n", name, strings.Join(endpoints, ", "))
	for line := range strings.Lines(settings) {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	return text
}

// writeProtoset writes a backend's descriptors into a file, for gateways that
// cannot ask for them.
func writeProtoset(t *testing.T, b *testbackend.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "set.binpb")
	if err := os.WriteFile(file, b.Protoset(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%q is no JSON: %v", text, err)
	}
}

// failing is a handler that fails each call.
func failing(code codes.Code) testbackend.Handler {
	return func(s *testbackend.Stream) error {
		s.SetTrailer(metadata.MD{"x-rpcgate-endpoint": {"forged"}, "x-rpcgate-attempts": {"99"}})
		return status.Error(code, "sick")
	}
}

// naming is a handler that answers with a name.
func naming(b *testbackend.Server, name string) testbackend.Handler {
	return func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		s.SetHeader(metadata.MD{"x-rpcgate-endpoint": {"forged"}})
		return s.Send(b.Encode("Shapes", fmt.Sprintf(`{"text": %q}`, name)))
	}
}

// Callers of each protocol are told of the attempts that their calls had, and of
// the endpoint.
func TestAttemptsAreTold(t *testing.T) {
	t.Parallel()
	sick, well := testbackend.Start(t), testbackend.Start(t)
	sick.Handle("Echo/Unary", failing(codes.Unavailable))
	well.Handle("Echo/Unary", naming(well, "well"))
	r := newRig(t, "call_info: endpoint\nbackends:\n"+endpointsConfig("echo", neverGiveUp, sick.Addr, well.Addr)+
		"routes: [{method: testbackend.Echo/Unary, idempotent: true}]\n")
	seen := map[string]map[string]bool{}
	told := func(protocol string, header func(string) string) {
		if at := header("x-rpcgate-endpoint"); at != well.Addr {
			t.Fatalf("%s: endpoint %q, want %s", protocol, at, well.Addr)
		}
		if seen[protocol] == nil {
			seen[protocol] = map[string]bool{}
		}
		seen[protocol][header("x-rpcgate-attempts")] = true
	}
	for range 40 {
		a := r.call(t, "POST", echoPath, "{}")
		a.ok(t, "")
		told("json", a.Header.Get)
		a = r.call(t, "POST", echoMethod, "{}", "Content-Type", "application/json", "Connect-Protocol-Version", "1")
		a.ok(t, "")
		told("connect", a.Header.Get)
		var header metadata.MD
		if _, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		told("grpc", func(key string) string { return strings.Join(header[key], ",") })
	}
	for protocol, attempts := range seen {
		if !attempts["1"] || !attempts["2"] || attempts[""] {
			t.Errorf("%s: attempts %v, want 1 and 2", protocol, attempts)
		}
	}
	r.WaitLog(`"attempts":2`, `"endpoint":"`+well.Addr+`"`, `"code":"OK"`)

	// And when the call fails.
	well.Handle("Echo/Unary", failing(codes.Unavailable))
	a := r.call(t, "POST", echoPath, "{}")
	a.failed(t, http.StatusServiceUnavailable, codes.Unavailable, "")
	if got := a.Header.Get("X-Rpcgate-Attempts"); got != "3" || a.Header.Get("X-Rpcgate-Endpoint") == "forged" {
		t.Errorf("failed: attempts %q, %v", got, a.Header)
	}
}

// A call that never got as far as an answer tells of its attempts all the same.
func TestAttemptsOfUnreachableBackends(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, "call_info: endpoint\nbackends:\n"+strings.Replace(
		endpointsConfig("echo", neverGiveUp, gatewaytest.FreeAddress(t)), "reflection: true", "protoset: ["+writeProtoset(t, b)+"]", 1))
	a := r.call(t, "POST", echoPath, "{}")
	a.failed(t, http.StatusServiceUnavailable, codes.Unavailable, "BACKEND_UNREACHABLE")
	if a.Header.Get("X-Rpcgate-Attempts") == "" {
		t.Errorf("JSON: %v", a.Header)
	}
	var trailer metadata.MD
	_, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Trailer(&trailer))
	grpcFailed(t, err, codes.Unavailable, "BACKEND_UNREACHABLE")
	if len(trailer["x-rpcgate-attempts"]) != 1 {
		t.Errorf("gRPC: %v", trailer)
	}
}

// A call with a key is one that may be repeated, on the routes that say so; the
// backend sees the key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	sick, well := testbackend.Start(t), testbackend.Start(t)
	sick.Handle("Echo/Unary", failing(codes.Unavailable))
	r := newRig(t, "backends:\n"+endpointsConfig("echo", neverGiveUp, sick.Addr, well.Addr)+
		"routes: [{method: testbackend.Echo/Unary, idempotency_key: true}, {method: testbackend.Files/Put, timeout: 1s}]\n")
	const calls = 30
	failures := func(header ...string) (failed int) {
		sick.Take()
		well.Take()
		for range calls {
			if a := r.call(t, "POST", echoPath, "{}", header...); a.Status != http.StatusOK {
				failed++
			}
		}
		return failed
	}
	if n := failures(); n == 0 || len(well.Take()) != calls-n || len(sick.Take()) != n {
		t.Errorf("%d of %d calls without a key failed", n, calls)
	}
	if n := failures("Idempotency-Key", "k-1"); n != 0 {
		t.Errorf("%d of %d calls with a key failed", n, calls)
	}
	tried := append(sick.Take(), well.Take()...)
	if len(tried) <= calls {
		t.Errorf("%d attempts", len(tried))
	}
	for _, c := range tried {
		if fmt.Sprint(c.Metadata["idempotency-key"]) != "[k-1]" {
			t.Fatalf("the backend sees the key %v", c.Metadata["idempotency-key"])
		}
	}
	ctx := metadata.AppendToOutgoingContext(r.limited(t), "idempotency-key", "k-2")
	for range calls {
		if _, err := invoke(ctx, r.conn, echoMethod, nil); err != nil {
			t.Fatalf("gRPC, with a key: %v", err)
		}
	}
}

// Calls go to a canary's endpoints by a header, and by a share.
func TestCanaries(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	for _, version := range []string{"v1", "v2", "v3"} {
		b := testbackend.Start(t)
		b.Handle("Echo/Unary", naming(b, version))
		_, err := etcd.Client().Put(limited(t), "echo.rpc/"+version, fmt.Sprintf(`{"Op":0,"Addr":%q,"Metadata":{"version":%q}}`, b.Addr, version))
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, etcdConfig(etcd, "echo")+`    canary:
      - {match: {version: v2}, header: x-canary, value: "yes"}
      - {match: {version: v3}, percent: 25}
`)
	answered := func(n int, header ...string) map[string]int {
		by := map[string]int{}
		for range n {
			a := r.call(t, "POST", echoPath, "{}", header...)
			a.ok(t, "")
			by[between(t, a.Body, `"text":"`, `"`)]++
		}
		return by
	}
	// Connections come about one by one; until then calls go where they can.
	gatewaytest.Eventually(t, func() error {
		if by := answered(10, "X-Canary", "yes"); by["v2"] != 10 {
			return fmt.Errorf("with the header: %v", by)
		}
		if by := answered(10, "X-Canary", "no"); by["v2"] > 0 {
			return fmt.Errorf("without the header: %v", by)
		}
		return nil
	})
	// Six standard deviations to either side.
	if by := answered(400); by["v2"] != 0 || by["v3"] < 48 || by["v3"] > 152 {
		t.Errorf("by the share: %v", by)
	}
}

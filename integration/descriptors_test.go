package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// descriptorSources are the three ways to the same descriptors, as lines of a
// backend's config.
func descriptorSources(t *testing.T, b *testbackend.Server) map[string]string {
	t.Helper()
	protoset := filepath.Join(t.TempDir(), "echo.binpb")
	if err := os.WriteFile(protoset, b.Protoset(), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Abs(filepath.Join("testbackend", testbackend.ImportPath))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"reflection": "reflection: true",
		"protoset":   fmt.Sprintf("protoset: [%q]", protoset),
		"proto":      fmt.Sprintf("proto: {files: [%q], import_paths: [%q]}", testbackend.File, sources),
	}
}

// Reflection, a protoset and .proto sources give the same routes, and calls work
// by each.
func TestDescriptorSourcesGiveTheSameRoutes(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	var first string
	for name, source := range descriptorSources(t, b) {
		r := newRig(t, echoConfig(b, source))
		r.call(t, "PATCH", "/v1/echo/b", `{"size":"7"}`).ok(t, `{"name":"b","size":"7","inner":null,"colour":"COLOUR_UNSPECIFIED"}`)
		if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		routes := printedRoutes(t, echoConfig(b, source))
		if first == "" {
			first = routes
		}
		if routes != first {
			t.Errorf("%s gives other routes:\n%s\nnot:\n%s", name, routes, first)
		}
	}
	for _, want := range []string{"/v1/{text=shelves/*/books/**}", "/testbackend.Echo/Unary", "testbackend.Echo/Bidi", "/admin/{resource_id}"} {
		if !strings.Contains(first, want) {
			t.Errorf("no route %s in\n%s", want, first)
		}
	}
}

// printedRoutes runs `gateway routes` on a config.
func printedRoutes(t *testing.T, configText string, more ...string) string {
	t.Helper()
	stdout, stderr, exit := gatewaytest.Run(t, append([]string{"routes", "-c", writeConfig(t, configText)}, more...)...)
	if exit != 0 {
		t.Fatalf("routes: exit %d: %s", exit, stderr)
	}
	return stdout
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if !strings.Contains(text, "redis:") {
		text = "redis: {addresses: ['127.0.0.1:1']}\n" + text
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Fault 11: a backend that is down at the start, its descriptors unknown, keeps
// nobody from the others; what may be its routes is 503 until it has come, and
// then served.
func TestFault11RoutesPending(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	addr := gatewaytest.FreeAddress(t)
	r := newRig(t, echoConfig(b, "")+fmt.Sprintf("  - {name: shop, endpoints: [%q], reflection: true}\n", addr))
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
	a := r.call(t, "GET", "/v1/users/1", "")
	a.failed(t, 503, codes.Unavailable, "ROUTES_PENDING")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	_, err := invoke(r.limited(t), r.conn, "/shop.UserService/GetUser", nil)
	grpcFailed(t, err, codes.Unavailable, "ROUTES_PENDING")

	gatewaytest.StartShop(t, addr)
	gatewaytest.Eventually(t, func() error {
		if a := r.call(t, "POST", "/v1/users", `{"name":"Ada"}`); a.Status != 200 {
			return fmt.Errorf("%d: %s", a.Status, a.Body)
		}
		return nil
	})
	r.call(t, "GET", "/v1/users/1", "").ok(t, "")
	r.call(t, "GET", "/nowhere", "").failed(t, 404, codes.NotFound, "NO_ROUTE")
	_, err = invoke(r.limited(t), r.conn, "/nowhere.Service/Method", nil)
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")
}

// Reflection through the gateway lists what is routed, from all backends, and
// describes it.
func TestReflectionThroughGateway(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, echoConfig(b, "services: [testbackend.Echo]")+fmt.Sprintf("  - {name: shop, endpoints: [%q], reflection: true}\n", shop.Addr))
	var services []string
	for _, s := range ask(t, r.conn, &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	if got := fmt.Sprint(services); got != "[grpc.health.v1.Health shop.OrderService shop.UserService testbackend.Echo]" {
		t.Errorf("services: %s", got)
	}
	for _, symbol := range []string{"testbackend.Echo", "testbackend.Shapes", "shop.UserService", "grpc.health.v1.Health"} {
		answer := ask(t, r.conn, &reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
		})
		if len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%s: %v", symbol, answer.GetErrorResponse())
		}
	}
	// What is not routed is not there.
	r.call(t, "GET", "/admin/x", "").failed(t, 404, codes.NotFound, "NO_ROUTE")
	_, err := invoke(r.limited(t), r.conn, "/testbackend.Admin/GetResource", nil)
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")

	off := newRig(t, echoConfig(b, "")+"grpc: {address: '127.0.0.1:0'}\n")
	_, err = invoke(off.limited(t), off.conn, reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, nil)
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")
}

func ask(t testing.TB, conn *grpc.ClientConn, question *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
	t.Helper()
	s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(question); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	return answer
}

// `routes` asks the backends themselves, and tells scripts in JSON.
func TestRoutesCommand(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	out := printedRoutes(t, echoConfig(b, ""), "--output", "json")
	var routes []map[string]any
	if err := json.Unmarshal([]byte(out), &routes); err != nil || len(routes) < 10 {
		t.Errorf("%d routes, %v: %s", len(routes), err, out)
	}
	_, stderr, exit := gatewaytest.Run(t, "routes", "-c", writeConfig(t, fmt.Sprintf(
		"backends: [{name: shop, endpoints: [%q], reflection: true}]\n", gatewaytest.FreeAddress(t))))
	if exit != 1 || !strings.Contains(stderr, "shop") {
		t.Errorf("a backend that is down: exit %d, %s", exit, stderr)
	}
}

// `check` finds what is wrong with a config and its descriptors offline, all of
// it at once; serve refuses the same.
func TestCheckCommand(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	good := writeConfig(t, echoConfig(b, descriptorSources(t, b)["protoset"]))
	if _, stderr, exit := gatewaytest.Run(t, "check", "-c", good); exit != 0 {
		t.Errorf("a good config: exit %d: %s", exit, stderr)
	}
	bad := writeConfig(t, "htpp: {}\nbackends:\n  - {name: a, endpoints: [nowhere], protoset: [missing.binpb], timeuot: 1s}\n")
	for _, command := range []string{"check", "serve"} {
		stdout, stderr, exit := gatewaytest.Run(t, command, "-c", bad)
		if exit != 1 {
			t.Errorf("%s: exit %d", command, exit)
		}
		for _, want := range []string{bad + ":2", "htpp", "http", "timeuot", "timeout", "nowhere"} {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s does not tell of %s: %s", command, want, stdout+stderr)
			}
		}
	}
	ambiguous := writeConfig(t, echoConfig(b, descriptorSources(t, b)["protoset"])+`
routes:
  - {method: testbackend.Echo/Unary, http: {get: "/same/{text}"}}
  - {method: testbackend.Admin/GetResource, http: {get: "/same/{resource_id}"}}
  - {method: testbackend.Echo/Unary, http: {get: "/other/{nothing}"}}
  - {method: testbackend.Echo/Missing, http: {get: "/third"}}
`)
	stdout, stderr, exit := gatewaytest.Run(t, "check", "-c", ambiguous)
	for _, want := range []string{"/same/{text}", "/same/{resource_id}", "nothing", "testbackend.Echo/Missing"} {
		if exit != 1 || !strings.Contains(stdout+stderr, want) {
			t.Errorf("exit %d, and %s is not told of: %s", exit, want, stdout+stderr)
		}
	}
}

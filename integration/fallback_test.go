package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// A fixed response stands in for a backend that is gone, in each protocol.
func TestStaticFallback(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	dead := strings.Replace(endpointsConfig("echo", "", gatewaytest.FreeAddress(t)), "reflection: true", "protoset: ["+writeProtoset(t, b)+"]", 1)
	r := newRig(t, "backends:\n"+dead+`routes: [{method: testbackend.Echo/Unary, fallback: {response: '{"text": "closed", "subs": [{"size": "7"}]}'}}]`+"\n")
	for range 10 { // the breaker's refusals are answered, too
		a := r.call(t, "POST", echoPath, `{"number": "1"}`)
		a.ok(t, "")
		if between(t, a.Body, `"text":"`, `"`) != "closed" || a.Header.Get("X-Rpcgate-Fallback") != "static" {
			t.Fatalf("%v %s", a.Header, a.Body)
		}
	}
	a := r.call(t, "POST", echoMethod, "{}", "Content-Type", "application/json", "Connect-Protocol-Version", "1")
	a.ok(t, "")
	if between(t, a.Body, `"text":"`, `"`) != "closed" || a.Header.Get("X-Rpcgate-Fallback") != "static" {
		t.Errorf("Connect: %v", a.Header)
	}
	var header metadata.MD
	msg, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Header(&header))
	if err != nil || fmt.Sprint(header["x-rpcgate-fallback"]) != "[static]" {
		t.Errorf("gRPC: %v, %v", err, header["x-rpcgate-fallback"])
	}
	sameJSON(t, b.JSON("Shapes", msg), `{"text": "closed", "subs": [{"size": "7"}]}`)
	if n := r.Metric("rpcgate_fallbacks_total", "backend", "echo", "kind", "static"); n != 12 {
		t.Errorf("%v fallbacks are counted", n)
	}
	r.WaitLog(`"fallback":"static"`, `"code":"OK"`)

	// What the caller does wrong is told as ever.
	r.call(t, "POST", echoPath, `{"number": "x"}`).failed(t, http.StatusBadRequest, codes.InvalidArgument, "BAD_REQUEST")
	r.do(t, r.http1, "POST", echoPath, "{}").failed(t, http.StatusUnauthorized, codes.Unauthenticated, "CREDENTIAL_MISSING")
}

// Another backend stands in, with its own answer and nothing of the first one's.
func TestFallbackToAnotherBackend(t *testing.T) {
	t.Parallel()
	main, spare := testbackend.Start(t), testbackend.Start(t)
	main.Handle("Echo/Unary", failing(codes.Unavailable))
	spare.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		s.SetHeader(metadata.MD{"served-by": {"spare"}})
		s.SetTrailer(metadata.MD{"ended-by": {"spare"}})
		return s.Send(msg)
	})
	r := newRig(t, "call_info: endpoint\nbackends:\n"+endpointsConfig("main", neverGiveUp, main.Addr)+endpointsConfig("spare", "", spare.Addr)+
		"routes: [{method: testbackend.Echo/Unary, backend: main, idempotent: true, max_attempts: 2, fallback: {backend: spare}}]\n")
	a := r.call(t, "POST", echoPath, `{"text": "hello"}`)
	a.ok(t, "")
	h := a.Header
	if between(t, a.Body, `"text":"`, `"`) != "hello" || h.Get("X-Rpcgate-Fallback") != "backend" || h.Get("Grpc-Metadata-Served-By") != "spare" ||
		h.Get("Grpc-Trailer-Ended-By") != "spare" || h.Get("X-Rpcgate-Attempts") != "3" || h.Get("X-Rpcgate-Endpoint") != spare.Addr {
		t.Errorf("%v %s", h, a.Body)
	}
	if n := len(main.Take()); n != 2 {
		t.Errorf("%d attempts at the main backend", n)
	}
	// Methods without a route of their own are the main backend's.
	r.call(t, "PUT", "/v1/files/x", "abc").ok(t, "")
	if len(main.Take()) != 1 {
		t.Error("another method's call does not reach the main backend")
	}
	// Both are gone: the first one's failure.
	spare.Handle("Echo/Unary", failing(codes.Internal))
	a = r.call(t, "POST", echoPath, "{}")
	a.failed(t, http.StatusServiceUnavailable, codes.Unavailable, "")
	if a.Header.Get("X-Rpcgate-Fallback") != "" || a.Header.Get("X-Rpcgate-Attempts") != "3" {
		t.Errorf("both fail: %v", a.Header)
	}
}

// A call whose outcome nobody knows is not made again elsewhere, unless it may be
// repeated.
func TestFallbackNeverCallsTwice(t *testing.T) {
	t.Parallel()
	main, spare := testbackend.Start(t), testbackend.Start(t)
	main.Handle("Echo/Unary", failing(codes.Unavailable))
	r := newRig(t, "backends:\n"+endpointsConfig("main", neverGiveUp, main.Addr)+endpointsConfig("spare", "", spare.Addr)+
		"routes: [{method: testbackend.Echo/Unary, backend: main, fallback: {backend: spare}}]\n")
	r.call(t, "POST", echoPath, "{}").failed(t, http.StatusServiceUnavailable, codes.Unavailable, "")
	untouched(t, spare)
}

// The last good answer stands in for a while: to the same app, for the same
// request.
func TestLastGoodAnswer(t *testing.T) {
	t.Parallel()
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t))
	r := newRig(t, fmt.Sprintf("backends:\n  - {name: shop, endpoints: [%q], reflection: true}\n", shop.Addr)+
		"routes: [{method: shop.UserService/GetUser, idempotent: true, fallback: {last_good: {max_age: 1h}}}]\n")
	user := r.call(t, "POST", "/v1/users", `{"name":"Ada"}`)
	user.ok(t, "")
	path := "/v1/users/" + between(t, user.Body, `"id":"`, `"`)
	first := r.call(t, "GET", path, "")
	first.ok(t, user.Body)
	if first.Header.Get("X-Rpcgate-Fallback") != "" {
		t.Errorf("the backend's own answer: %v", first.Header)
	}
	shop.Kill()
	a := r.call(t, "GET", path, "")
	a.ok(t, user.Body)
	if a.Header.Get("X-Rpcgate-Fallback") != "last-good" || a.Header.Get("Age") == "" {
		t.Errorf("%v", a.Header)
	}
	if a := r.call(t, "GET", "/v1/users/2", ""); a.Status == http.StatusOK {
		t.Errorf("another request is answered: %s", a.Body)
	}
	other := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
	if a := r.do(t, r.http1, "GET", path, "", "Authorization", "Bearer other."+other); a.Status == http.StatusOK {
		t.Errorf("another app is answered: %s", a.Body)
	}
}

package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/telemetry"
)

func containsFold(s, part string) bool { return strings.Contains(strings.ToLower(s), part) }

// forwardFunc is a Forwarder.
type forwardFunc func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error

func (f forwardFunc) Forward(ctx context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error {
	return f(ctx, r, ex)
}

// verifyFunc is a Verifier.
type verifyFunc func(auth.Credential) (*auth.Principal, error)

func (f verifyFunc) Verify(_ context.Context, c auth.Credential) (*auth.Principal, error) {
	return f(c)
}

// silentPeer is a caller that sends nothing.
type silentPeer struct{ panics bool }

func (p silentPeer) recvMsg() (mem.BufferSlice, error) {
	if p.panics {
		panic("recvMsg broke")
	}
	return nil, io.EOF
}
func (silentPeer) sendHeader(metadata.MD) error  { return nil }
func (silentPeer) sendMsg(mem.BufferSlice) error { return nil }
func (silentPeer) setTrailer(metadata.MD)        {}
func (silentPeer) note(metadata.MD)              {}
func (silentPeer) asked() (verb, method string)  { return "GET", "/v1/users/7" }

// newTestGateway makes a gateway without listeners; and what it logs and counts.
func newTestGateway(v Verifier) (*Gateway, *bytes.Buffer, *prometheus.Registry) {
	var text bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&text, nil))
	reg := prometheus.NewRegistry()
	return &Gateway{
		cfg: config.Defaults(), log: log, verifier: v,
		calls:        telemetry.NewCalls(reg),
		authOutcomes: telemetry.NewAuth(reg),
		accessLog:    telemetry.NewAccessLog(log, config.Log{SuccessSample: 1, SlowThreshold: time.Minute}),
	}, &text, reg
}

// forwardTo is the dispatch of a route without policies to a backend.
func forwardTo(g *Gateway, r *routes.Route, backend Forwarder) Handler {
	return g.newOutbound(r, backend, newKeptOver(nil).filters).handle
}

func testRoute() *routes.Route {
	return &routes.Route{Backend: "shop", HTTPMethod: "GET", FullMethod: "/shop.UserService/GetUser", Label: "/v1/users/{id}"}
}

func newTestCall(r *routes.Route, p peer) *Call {
	return &Call{
		Protocol: protocolJSON, Route: r, Start: time.Now(), peer: p, RequestID: "id-1",
		Credential: auth.Credential{App: "acme", Token: "the-secret"},
	}
}

func valid(auth.Credential) (*auth.Principal, error) {
	return &auth.Principal{App: "acme", TokenID: "t1"}, nil
}

// A panic, wherever in the pipeline it happens, is one failed call: counted,
// logged with its stack, answered without a word of it.
func TestPanicIsOneFailedCall(t *testing.T) {
	ok := forwardFunc(func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error { return nil })
	recv := forwardFunc(func(_ context.Context, _ *rpcproxy.Request, ex rpcproxy.Exchange) error {
		_, err := ex.RecvMsg()
		return err
	})
	for name, tc := range map[string]struct {
		verify  verifyFunc
		forward forwardFunc
		peer    peer
	}{
		"in a step":       {func(auth.Credential) (*auth.Principal, error) { panic("verify broke") }, ok, silentPeer{}},
		"in forwarding":   {valid, func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error { panic("forward broke") }, silentPeer{}},
		"in the exchange": {valid, recv, silentPeer{panics: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g, text, reg := newTestGateway(tc.verify)
			r := testRoute()
			h := g.pipeline(r, forwardTo(g, r, tc.forward))
			for range 2 { // the second call is served like the first
				err := h(t.Context(), newTestCall(r, tc.peer))
				failure := describe(err)
				if failure == nil || failure.Code != codes.Internal || containsFold(failure.Message, "broke") {
					t.Fatalf("got %v", err)
				}
			}
			if !strings.Contains(text.String(), "broke") || !strings.Contains(text.String(), "pipeline_test.go") {
				t.Errorf("the log has no panic with its stack:\n%s", text)
			}
			want := `
# HELP rpcgate_calls_in_flight Calls that have begun and not ended.
# TYPE rpcgate_calls_in_flight gauge
rpcgate_calls_in_flight{backend="shop",protocol="json",route="/v1/users/{id}"} 0
`
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "rpcgate_calls_in_flight"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nothing reaches the backend of a call that is not authenticated, and a route
// that needs no credential does not pass one on.
func TestAuthenticate(t *testing.T) {
	for name, tc := range map[string]struct {
		authNone bool
		refusal  error
		verify   error
		reached  bool
		want     codes.Code
	}{
		"valid":                 {reached: true},
		"no credential":         {refusal: auth.ErrMissing, want: codes.Unauthenticated},
		"malformed":             {refusal: auth.ErrMalformed, want: codes.Unauthenticated},
		"refused":               {verify: auth.ErrInvalid, want: codes.Unauthenticated},
		"cannot be verified":    {verify: auth.ErrUnavailable, want: codes.Unavailable},
		"auth none":             {authNone: true, reached: true},
		"auth none, none given": {authNone: true, refusal: auth.ErrMissing, reached: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, text, _ := newTestGateway(verifyFunc(func(c auth.Credential) (*auth.Principal, error) {
				if tc.verify != nil {
					return nil, tc.verify
				}
				return valid(c)
			}))
			r := testRoute()
			r.AuthNone = tc.authNone
			reached := false
			h := g.pipeline(r, forwardTo(g, r, forwardFunc(func(_ context.Context, req *rpcproxy.Request, _ rpcproxy.Exchange) error {
				reached = true
				if tc.authNone != req.Credential.IsZero() {
					t.Errorf("the backend's credential is %v", req.Credential)
				}
				return nil
			})))
			c := newTestCall(r, silentPeer{})
			c.Refusal = tc.refusal
			err := h(t.Context(), c)
			if got := describe(err); reached != tc.reached || got != nil && got.Code != tc.want || got == nil && tc.want != codes.OK {
				t.Errorf("reached %v, failure %v", reached, got)
			}
			if strings.Contains(text.String(), "the-secret") {
				t.Errorf("the log has the token:\n%s", text)
			}
		})
	}
}

func TestCheckRequest(t *testing.T) {
	g, _, _ := newTestGateway(verifyFunc(valid))
	r := testRoute()
	h := g.pipeline(r, forwardTo(g, r, forwardFunc(func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error {
		t.Error("the backend was reached")
		return nil
	})))

	late := newTestCall(r, silentPeer{})
	late.Deadline = time.Now().Add(-time.Millisecond)
	if err := h(t.Context(), late); describe(err).Code != codes.DeadlineExceeded {
		t.Errorf("a call past its deadline: %v", err)
	}
	malformed := newTestCall(r, silentPeer{})
	malformed.Malformed = badRequest("BAD_TIMEOUT", "x")
	if err := h(t.Context(), malformed); describe(err).Reason != "BAD_TIMEOUT" {
		t.Errorf("a malformed call: %v", err)
	}
	// Who is not authenticated learns nothing of what else is wrong.
	both := newTestCall(r, silentPeer{})
	both.Malformed, both.Refusal = badRequest("BAD_TIMEOUT", "x"), auth.ErrMissing
	if err := h(t.Context(), both); describe(err).Code != codes.Unauthenticated {
		t.Errorf("a malformed call without a credential: %v", err)
	}
	if !errors.Is(describe(context.Canceled), context.Canceled) {
		t.Error("the cause is lost")
	}
}

package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// failingFor fails the calls of one app.
func failingFor(app string, code codes.Code) testbackend.Handler {
	return func(stream *testbackend.Stream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		if strings.Join(md["app"], "") == app {
			return status.Error(code, "not for you")
		}
		msg, err := stream.Recv()
		if err != nil {
			return err
		}
		return stream.Send(msg)
	}
}

// What concerns one app keeps that app away and nobody else: its quota whatever
// the scope, and with scope app whatever fails.
func TestBreakerOfOneApp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings string
		code     codes.Code
	}{
		"quota, adaptive":      {"breaker: {kind: adaptive}", codes.ResourceExhausted},
		"quota, threshold":     {"breaker: {kind: threshold}", codes.ResourceExhausted},
		"scope app, adaptive":  {"breaker: {kind: adaptive, scope: app}", codes.Internal},
		"scope app, threshold": {"breaker: {kind: threshold, scope: app}", codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			b.Handle("Echo/Unary", failingFor("greedy", tt.code))
			r := newRig(t, echoConfig(b, tt.settings)+quiet)
			greedy := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "greedy"}).Secret
			good := startLoad(t, 2, r.echoing())
			bad := newLoad(t)
			bad.add(2, r.echoingAs("greedy", greedy))
			bad.awaitFailures(200, "BREAKER_OPEN")
			bad.stop()
			good.awaitMore(100)
			good.stop()
			good.only()
			gatewaytest.Eventually(t, func() error {
				if got := r.Metric("rpcgate_breaker_open_apps"); got != 1 {
					return fmt.Errorf("%v apps' breakers are open", got)
				}
				return nil
			})
			v := r.breakerOf(t, "greedy")
			if v.State == "closed" || v.LastFailure == nil || v.LastFailure.Code != map[codes.Code]string{
				codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.Internal: "INTERNAL",
			}[tt.code] || !strings.Contains(v.Reason, "calls failed within") {
				t.Errorf("the app's breaker is shown as %+v", v)
			}
			r.WaitLog(`"msg":"breaker is open"`, `"app":"greedy"`, `"method":"`+echoUnary+`"`)
		})
	}
}

// breakerOf is the breaker of an app, or of everybody, as the command line shows
// it.
func (r *rig) breakerOf(t *testing.T, app string) gateway.BreakerView {
	t.Helper()
	stdout, stderr, exit := gatewaytest.Run(t, "backends", "echo", "--admin", r.Admin, "--output", "json")
	var list []gateway.BackendView
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || exit != 0 || len(list) != 1 {
		t.Fatalf("gateway backends: exit %d, %v: %s%s", exit, err, stdout, stderr)
	}
	for _, v := range list[0].Breakers {
		if v.Method == echoUnary && (app == "" && v.App == nil || v.App != nil && *v.App == app) {
			return v
		}
	}
	t.Fatalf("no breaker of %q: %s", app, stdout)
	return gateway.BreakerView{}
}

// An operator's word holds for who it is about, until it is taken back or its
// time is up, over all protocols.
func TestOperatorForcesBreakers(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", quiet)
	other := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
	word := func(args ...string) {
		t.Helper()
		args = append([]string{"breaker", args[0], "--admin", r.Admin, "--backend", "echo", "--method", echoUnary}, args[1:]...)
		if stdout, stderr, exit := gatewaytest.Run(t, args...); exit != 0 {
			t.Fatalf("gateway %v: exit %d: %s%s", args, exit, stdout, stderr)
		}
	}
	must(t, r.echoing())
	word("open", "--by", "ann")
	err := r.echoing()(limited(t))
	var refused *refusal
	if !errors.As(err, &refused) || refused.reason != "BREAKER_OPEN" || !strings.Contains(refused.Error(), "forced open by an operator") {
		t.Errorf("forced open: %v", err)
	}
	ends(t, r.invoking(r.conn), "BREAKER_OPEN")
	if v := r.breakerOf(t, ""); v.State != "open" || !strings.HasPrefix(v.Forced.By, "ann from 127.0.0.1") {
		t.Errorf("shown as %+v", v)
	}
	r.WaitLog(`"msg":"breaker is forced"`, `"state":"open"`, `"by":"ann from 127.0.0.1"`)
	word("close", "--app", "other")
	must(t, r.echoingAs("other", other))
	word("auto")
	must(t, r.echoing())
	word("open", "--app", r.app, "--for", "5s")
	ends(t, r.echoing(), "BREAKER_OPEN")
	must(t, r.echoingAs("other", other))
	comesTo(t, r.echoing(), "OK")
	r.WaitLog(`"msg":"breaker is forced no more"`, `"app":"`+r.app+`"`)
}

package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// revoke ends a token and returns when that was done.
func (r *rig) revoke(t testing.TB, token string) time.Time {
	t.Helper()
	withStore(t, r.redis.Addr, func(ctx context.Context, s *tenant.Store) error {
		return s.Revoke(ctx, r.app, tokenID(token))
	})
	return time.Now()
}

// heard waits until the gateway's subscription is on or off.
func (r *rig) heard(t testing.TB, on bool) {
	t.Helper()
	want := 0.0
	if on {
		want = 1
	}
	r.awaitMetric(t, want, "rpcgate_auth_revocations_subscribed")
}

// awaitMetric waits until a metric has a value; see gatewaytest.Gateway.Metric.
func (r *rig) awaitMetric(t testing.TB, want float64, name string, labels ...string) {
	t.Helper()
	gatewaytest.Eventually(t, func() error {
		if got := r.Metric(name, labels...); got != want {
			return fmt.Errorf("%s%v is %v, want %v", name, labels, got, want)
		}
		return nil
	})
}

// A revocation reaches every gateway within a second, over every protocol, and
// closes the credential's connections and no others.
func TestRevokedWithinASecondOnTwoGateways(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	one := newRig(t, echoConfig(b, ""))
	two := one.beside(t, echoConfig(b, ""))
	gateways := []*rig{one, two}
	other := issueToken(t, one.redis.Addr, tenant.IssueOptions{App: one.app}).Secret
	for _, g := range gateways {
		g.heard(t, true)
		must(t, g.echoing())
		must(t, g.invoking(g.conn))
		must(t, g.echoingAs(g.app, other))
		if got := g.Metric("rpcgate_pool_conns", "state", "live"); got != 3 { // and reflection's
			t.Fatalf("%v connections, want 3", got)
		}
	}

	revoked := one.revoke(t, one.token)
	for _, g := range gateways {
		comesTo(t, g.echoing(), "TOKEN_REVOKED")
		if took := time.Since(revoked); took > time.Second {
			t.Errorf("the token still worked %v after it was revoked", took)
		}
		ends(t, g.invoking(g.conn), "TOKEN_REVOKED")
		must(t, g.echoingAs(g.app, other))
		g.awaitMetric(t, 2, "rpcgate_pool_conns", "state", "live")
		g.awaitMetric(t, 0, "rpcgate_pool_conns", "state", "draining")
	}
}

// openStreams opens a gRPC stream in both directions and a JSON stream, both of
// which got a message. The backend ends the latter when it is told to.
func (r *rig) openStreams(t *testing.T, b *testbackend.Server) (bidi *bytesStream, lines *bufio.Reader, end chan<- struct{}) {
	t.Helper()
	over := make(chan struct{})
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		if err := s.Send(msg); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case <-over:
		}
		return s.Send(msg)
	})
	bidi = rawStream(t, r.limited(t), r.conn, echoBidi)
	echoes(t, bidi)
	req := r.request(t, limited(t), http.MethodGet, "/v1/echo:stream?text=hello", "", "Authorization", r.bearer())
	resp, err := r.http1.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines = bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "hello") {
		t.Fatalf("the stream began with %q, %v", line, err)
	}
	return bidi, lines, over
}

func echoes(t *testing.T, s *bytesStream) {
	t.Helper()
	if err := s.send("\x0a\x05hello"); err != nil {
		t.Fatalf("sending into the stream: %v", err)
	}
	if got, err := s.recv(); err != nil || got != "\x0a\x05hello" {
		t.Fatalf("the stream answered %q, %v", got, err)
	}
}

func TestStreamsFinishAfterARevocation(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+"auth: {revoke_in_flight: finish}\n")
	r.heard(t, true)
	bidi, lines, end := r.openStreams(t, b)
	r.revoke(t, r.token)
	comesTo(t, r.echoing(), "TOKEN_REVOKED")
	r.awaitMetric(t, 1, "rpcgate_pool_conns", "state", "draining")

	echoes(t, bidi)
	close(end)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "hello") {
		t.Fatalf("the stream went on with %q, %v", line, err)
	}
	if _, err := lines.ReadString('\n'); !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	if err := bidi.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := bidi.recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	r.awaitMetric(t, 0, "rpcgate_pool_conns", "state", "draining")
}

func TestRevocationCancelsStreams(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+"auth: {revoke_in_flight: cancel}\n")
	r.heard(t, true)
	stranger := &rig{Gateway: r.Gateway, redis: r.redis, app: "other", conn: r.conn, http1: r.http1}
	stranger.token = issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "other"}).Secret
	theirs, _, _ := stranger.openStreams(t, b)
	bidi, lines, _ := r.openStreams(t, b)

	revoked := r.revoke(t, r.token)
	_, err := bidi.recv()
	grpcFailed(t, err, codes.Unauthenticated, "TOKEN_REVOKED")
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "TOKEN_REVOKED") {
		t.Fatalf("the stream ended with %q, %v", line, err)
	}
	if took := time.Since(revoked); took > time.Second {
		t.Errorf("the streams went on for %v", took)
	}
	echoes(t, theirs)
}

// Redis keeps no messages for those who are not there. A revocation made while a
// gateway could not hear is noticed once it can, long before its memory ends.
func TestMissedRevocationIsNoticed(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(*proxy){"cut": (*proxy).Cut, "half-open": (*proxy).Hold} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			network := startProxy(t, server.Addr)
			b := testbackend.Start(t)
			r := startRig(t, server, fmt.Sprintf("addresses: [%q]", network.Addr), echoConfig(b, "")+"auth: {mode: lenient, revoke_in_flight: cancel}\n")
			r.heard(t, true)
			bidi, _, _ := r.openStreams(t, b)

			interrupt(network)
			r.heard(t, false)
			r.revoke(t, r.token)
			must(t, r.echoing()) // it cannot know
			echoes(t, bidi)
			network.Mend()
			r.heard(t, true)
			heard := time.Now()
			comesTo(t, r.echoing(), "TOKEN_REVOKED")
			if took := time.Since(heard); took > time.Second {
				t.Errorf("the token worked for another %v", took)
			}
			_, err := bidi.recv()
			grpcFailed(t, err, codes.Unauthenticated, "TOKEN_REVOKED")
		})
	}
}

// The same with a Redis that was killed and came back with its data.
func TestRevocationIsNoticedAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Persist: true})
	b := testbackend.Start(t)
	r := startRig(t, server, "", echoConfig(b, ""))
	rdb := redisClient(t, server.Addr)
	r.heard(t, true)
	must(t, r.echoing())
	// As a revocation does, but for the message.
	key := "rpcgate:{" + r.app + "}:token:" + tokenID(r.token)
	if err := rdb.HSet(t.Context(), key, "revoked", time.Now().UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	must(t, r.echoing())
	server.Restart()
	comesTo(t, r.echoing(), "TOKEN_REVOKED")
}

func TestRotateWithGrace(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "")
	r.heard(t, true)
	must(t, r.echoing())
	callers := startLoad(t, 2, r.echoing())
	began := time.Now()
	stdout, stderr, exit := gatewaytest.Run(t, "token", "rotate", "--app", r.app, "--id", tokenID(r.token),
		"--grace", "2s", "--redis", r.redis.Addr, "--output", "json")
	rotated := time.Now()
	if exit != 0 {
		t.Fatal(stderr)
	}
	renewed := tokenIn(t, stdout)
	must(t, r.echoingAs(r.app, renewed))
	callers.awaitFailures(1, "TOKEN_EXPIRED")
	callers.stop()
	callers.only("TOKEN_EXPIRED")
	if first := callers.firstFailure(); first.Before(began.Add(2 * time.Second)) {
		t.Errorf("the old token was refused %v after the rotation began", first.Sub(began))
	}
	if took := time.Since(rotated); took > 2*time.Second+2*slack {
		t.Errorf("the old token was good for %v", took)
	}
	must(t, r.echoingAs(r.app, renewed))
}

// A token that expires while it is in memory is refused from then on.
func TestExpiryWhileCached(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	const ttl = 1500 * time.Millisecond
	issued := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "brief", TTL: ttl})
	call := r.echoingAs("brief", issued.Secret)
	for {
		before := time.Now()
		got := reasonFor(call(limited(t)))
		if got == "TOKEN_EXPIRED" && time.Now().After(issued.Expires) {
			break
		}
		if got != "OK" || before.After(issued.Expires) {
			t.Fatalf("%v before its expiry the call ended with %s", issued.Expires.Sub(before), got)
		}
	}
	b.Take()
	ends(t, call, "TOKEN_EXPIRED")
	untouched(t, b)
}

package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// fairRig is a gateway with little of what is scarce, a backend whose Bidi and
// GetResource take as long as the test, and another app beside the rig's own, which
// floods.
func fairRig(t *testing.T, overload, backend string) (r *rig, good callFunc) {
	t.Helper()
	b := testbackend.Start(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	b.Handle("Echo/Bidi", func(*testbackend.Stream) error {
		<-over
		return nil
	})
	r = newRig(t, "overload: "+overload+"\n"+echoConfig(b, "timeout: 30s\nbreaker: {kind: \"off\"}\n"+backend)+quiet)
	other := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "good"}).Secret
	good = r.echoingAs("good", other)
	must(t, r.echoing())
	must(t, good)
	return r, good
}

// keepsItsCalls makes the good app's calls, a few at once, all of which must
// succeed.
func keepsItsCalls(t *testing.T, good callFunc) {
	t.Helper()
	l := newLoad(t)
	l.add(3, good)
	l.awaitMore(200)
	l.stop()
	l.only()
}

// shed is how many calls were shed for a reason.
func (r *rig) shed(reason string) float64 {
	return r.Metric("rpcgate_calls_shed_total", "reason", reason, "priority", "normal")
}

func awaitCount(t *testing.T, what string, least float64, count func() float64) {
	t.Helper()
	gatewaytest.Eventually(t, func() error {
		if n := count(); n < least {
			return fmt.Errorf("%v %s, not %v", n, what, least)
		}
		return nil
	})
}

// holdStreams opens streams that nobody ends, over several connections, until the
// test does.
func (r *rig) holdStreams(t *testing.T, conns, streams int) {
	t.Helper()
	held, hangUp := context.WithCancel(r.as(t.Context()))
	var all sync.WaitGroup
	t.Cleanup(func() {
		hangUp()
		all.Wait()
	})
	for range conns {
		conn := dial(t, r.GRPC)
		for range streams {
			s := rawStream(t, held, conn, echoBidi)
			all.Go(func() { _, _ = s.recv() })
		}
	}
}

// One app that has all the calls to a backend that it may have leaves room for
// another's.
func TestFairSlowBackend(t *testing.T) {
	t.Parallel()
	r, good := fairRig(t, "{}", "concurrency: {max_calls: 90}")
	r.holdStreams(t, 2, 100)
	awaitCount(t, "calls are refused", 100, func() float64 { return r.Metric("rpcgate_backend_busy_total", "backend", "echo") })
	if n := r.Metric("rpcgate_backend_calls_in_flight", "backend", "echo"); n < 70 || n > 85 {
		t.Errorf("the flooding app has %v of 90 calls", n)
	}
	keepsItsCalls(t, good)
}

func TestFairStreams(t *testing.T) {
	t.Parallel()
	r, good := fairRig(t, "{max_calls: 100}", "")
	r.holdStreams(t, 3, 100)
	awaitCount(t, "calls are shed", 200, func() float64 { return r.shed("share") + r.shed("max_calls") })
	keepsItsCalls(t, good)
}

// Connections with a call each, as many as may be.
func TestFairConnections(t *testing.T) {
	t.Parallel()
	r, good := fairRig(t, "{max_calls: 100}", "")
	r.holdStreams(t, 150, 1)
	awaitCount(t, "calls are shed", 50, func() float64 { return r.shed("share") + r.shed("max_calls") })
	keepsItsCalls(t, good)
}

// Bodies that are announced and do not come take room, and another's still finds
// some.
func TestFairBodies(t *testing.T) {
	t.Parallel()
	r, good := fairRig(t, "{max_held_size: 32MiB}", "")
	const size = 1 << 20
	for range 60 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, err = fmt.Fprintf(c, "POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", r.bearer(), size)
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitCount(t, "calls are shed", 60-29, func() float64 { return r.shed("held_size") })
	if n := r.shed("held_size"); n > 60-20 {
		t.Errorf("%v of 60 bodies are refused, though there is room for 28", n)
	}
	keepsItsCalls(t, good)
	l := newLoad(t)
	token := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "good"}).Secret
	l.add(1, r.posting(r.http2, "good", token, "/v1/echo", `{"text": "`+strings.Repeat("x", size/2)+`"}`))
	l.awaitMore(20)
	l.stop()
	l.only()
}

// Answers that are not read keep their places and their bytes; another's calls find
// theirs.
func TestFairSlowReaders(t *testing.T) {
	t.Parallel()
	r, good := fairRig(t, "{max_calls: 60, max_held_size: 64MiB}", "")
	const size = 3 << 20 // more than the system's buffers take
	body := `{"text": "` + strings.Repeat("x", size) + `"}`
	for range 80 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			t.Fatal("no TCP")
		}
		must(t, func(context.Context) error { return tcp.SetReadBuffer(4 << 10) })
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(c, fmt.Sprintf("POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", r.bearer(), len(body), body))
		}()
		t.Cleanup(func() {
			_ = c.Close()
			<-sent
		})
	}
	awaitCount(t, "calls are shed", 20, func() float64 { return r.shed("held_size") + r.shed("share") })
	keepsItsCalls(t, good)
}

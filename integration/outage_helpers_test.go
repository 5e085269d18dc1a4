package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

const (
	echoUnary  = "/testbackend.Echo/Unary"
	echoBidi   = "/testbackend.Echo/Bidi"
	echoStream = "/testbackend.Echo/ServerStream"
)

// quiet keeps the access log out of the way of tests that make many calls.
const quiet = "log: {success_sample: 0}\n"

// startRig is newRig on a Redis that is there already. redisConfig is the whole
// inside of the section redis; "": its address alone.
func startRig(t *testing.T, server *redistest.Server, redisConfig, configText string) *rig {
	t.Helper()
	r := &rig{redis: server, app: "acme"}
	r.token = issueToken(t, server.Addr, tenant.IssueOptions{App: r.app}).Secret
	r.start(t, redisConfig, configText)
	return r
}

// beside starts another gateway for the same credential.
func (r *rig) beside(t *testing.T, configText string) *rig {
	t.Helper()
	other := &rig{redis: r.redis, app: r.app, token: r.token}
	other.start(t, "", configText)
	return other
}

func (r *rig) start(t *testing.T, redisConfig, configText string) {
	t.Helper()
	if redisConfig == "" {
		redisConfig = fmt.Sprintf("addresses: [%q]", r.redis.Addr)
	}
	r.Gateway = gatewaytest.Serve(t, "redis: {"+redisConfig+"}\n"+configText)
	r.http1, r.http2 = httpClient(t, false), httpClient(t, true)
	r.conn = dial(t, r.GRPC)
}

// redisClient speaks to a Redis beside the gateway.
func redisClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// refusal is an answer that is not 200.
type refusal struct {
	answer
	reason string // of the gateway's ErrorInfo, "" for another's
}

func (e *refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.reason, strings.TrimSpace(e.Body))
}

// reasonFor names what became of a call: "OK", the reason that the gateway
// gives, or the error as it is.
func reasonFor(err error) string {
	if err == nil {
		return "OK"
	}
	if refused := new(refusal); errors.As(err, &refused) && refused.reason != "" {
		return refused.reason
	}
	if s, ok := status.FromError(err); ok && reasonOf(s) != "" {
		return reasonOf(s)
	}
	return err.Error()
}

// callFunc makes one call. A *refusal, or a gRPC status, is an answer to it.
type callFunc func(ctx context.Context) error

// posting is a call over HTTP with a credential.
func (r *rig) posting(client *http.Client, app, token, target, body string) callFunc {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.HTTP+target, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+app+"."+token)
		return send(client, req)
	}
}

// getting is a GET over HTTP/1.1 with the rig's credential.
func (r *rig) getting(target string) callFunc {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTP+target, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", r.bearer())
		return send(r.http1, req)
	}
}

// send makes an HTTP request; the error is nil after a 200.
func send(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	e := &refusal{answer: answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}}
	var body struct {
		Details []struct{ Reason, Domain string }
	}
	if json.Unmarshal(text, &body) == nil {
		for _, d := range body.Details {
			if d.Domain == "rpcgate" {
				e.reason = d.Reason
			}
		}
	}
	return e
}

// echoing calls Echo/Unary over HTTP/1.1 with the rig's credential.
func (r *rig) echoing() callFunc {
	return r.posting(r.http1, r.app, r.token, "/v1/echo", `{"text": "hello"}`)
}

// echoingAs is echoing with another credential.
func (r *rig) echoingAs(app, token string) callFunc {
	return r.posting(r.http1, app, token, "/v1/echo", `{"text": "hello"}`)
}

// shopping creates a user over HTTP/1.1.
func (r *rig) shopping() callFunc {
	return r.posting(r.http1, r.app, r.token, "/v1/users", `{"name": "Ada"}`)
}

// invoking calls Echo/Unary over gRPC with the rig's credential.
func (r *rig) invoking(conn *grpc.ClientConn) callFunc {
	return func(ctx context.Context) error {
		_, err := invoke(r.as(ctx), conn, echoUnary, []byte("\x0a\x05hello"))
		return err
	}
}

// must makes a call that has to succeed.
func must(t testing.TB, call callFunc) {
	t.Helper()
	if err := call(limited(t)); err != nil {
		t.Fatal(err)
	}
}

// ends makes a call that has to end in a certain way; see reasonFor.
func ends(t testing.TB, call callFunc, reason string) {
	t.Helper()
	if got := reasonFor(call(limited(t))); got != reason {
		t.Fatalf("the call ended with %s, want %s", got, reason)
	}
}

// comesTo repeats a call until it ends in a certain way.
func comesTo(t testing.TB, call callFunc, reason string) {
	t.Helper()
	ctx := limited(t)
	gatewaytest.Eventually(t, func() error {
		if got := reasonFor(call(ctx)); got != reason {
			return fmt.Errorf("the call ended with %s, want %s", got, reason)
		}
		return nil
	})
}

// load is callers that each make one call after the other until they are
// stopped.
type load struct {
	tb       testing.TB
	stopping chan struct{}
	stopOnce sync.Once
	callers  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // of all calls, until the test's end
	cancel   context.CancelFunc

	mu      sync.Mutex
	ok      int
	failed  []failedCall
	slowest time.Duration
}

type failedCall struct {
	began, ended time.Time
	err          error
}

// pace is the pause between the calls of one caller: enough load to notice
// faults, and not so much that the machine is what is tested.
const pace = 5 * time.Millisecond

// newLoad is a load without callers yet.
func newLoad(tb testing.TB) *load {
	tb.Helper()
	l := &load{tb: tb, stopping: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	tb.Cleanup(func() {
		l.stopOnce.Do(func() { close(l.stopping) })
		l.cancel()
		l.callers.Wait()
	})
	return l
}

// add starts n callers.
func (l *load) add(n int, call callFunc) {
	for range n {
		l.callers.Go(func() { l.run(l.ctx, call) })
	}
}

// startLoad starts n callers for each of the calls, and waits until they have
// succeeded for the first time.
func startLoad(tb testing.TB, n int, calls ...callFunc) *load {
	tb.Helper()
	l := newLoad(tb)
	for _, call := range calls {
		l.add(n, call)
	}
	l.awaitMore(n * len(calls))
	return l
}

func (l *load) run(ctx context.Context, call callFunc) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for {
		select {
		case <-l.stopping:
			return
		case <-next.C:
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, testLimit)
		err := call(ctx)
		cancel()
		l.mu.Lock()
		l.slowest = max(l.slowest, time.Since(began))
		if err == nil {
			l.ok++
		} else {
			l.failed = append(l.failed, failedCall{began, time.Now(), err})
		}
		l.mu.Unlock()
	}
}

// awaitMore waits for n further calls that succeed.
func (l *load) awaitMore(n int) {
	l.tb.Helper()
	want := l.succeeded() + n
	gatewaytest.Eventually(l.tb, func() error {
		if got := l.succeeded(); got < want {
			return fmt.Errorf("%d calls short; failures: %v", want-got, l.reasons())
		}
		return nil
	})
}

// awaitFailures waits for n further calls that end with the reason.
func (l *load) awaitFailures(n int, reason string) {
	l.tb.Helper()
	want := l.reasons()[reason] + n
	gatewaytest.Eventually(l.tb, func() error {
		if got := l.reasons(); got[reason] < want {
			return fmt.Errorf("want %d calls that end with %s, got %v", want, reason, got)
		}
		return nil
	})
}

func (l *load) succeeded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ok
}

// reasons counts the failures so far by reasonFor.
func (l *load) reasons() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, f := range l.failed {
		counts[reasonFor(f.err)]++
	}
	return counts
}

// firstFailure is when the first call that failed had ended. On a busy machine
// that is well after it had begun, and what it failed for came in between.
func (l *load) firstFailure() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) == 0 {
		return time.Time{}
	}
	return l.failed[0].ended
}

// only checks that no call failed but for the reasons.
func (l *load) only(reasons ...string) {
	l.tb.Helper()
	for reason, n := range l.reasons() {
		if !slices.Contains(reasons, reason) {
			l.tb.Errorf("%d calls ended with %s", n, reason)
		}
	}
}

// stop ends the load and waits for the calls in flight.
func (l *load) stop() {
	l.stopOnce.Do(func() { close(l.stopping) })
	l.callers.Wait()
}

// steady waits until no call failed for the length of calm, and returns when
// the last one that did had begun.
func (l *load) steady(calm time.Duration) (lastBegan time.Time) {
	l.tb.Helper()
	gatewaytest.Eventually(l.tb, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.failed) == 0 {
			return nil
		}
		last := l.failed[len(l.failed)-1]
		if since := time.Since(last.ended); since < calm {
			return fmt.Errorf("a call failed %v ago: %w", since, last.err)
		}
		for _, f := range l.failed {
			if f.began.After(lastBegan) {
				lastBegan = f.began
			}
		}
		return nil
	})
	return lastBegan
}

// stays checks a condition over and over for a while.
func stays(t testing.TB, d time.Duration, check func() error) {
	t.Helper()
	over := time.NewTimer(d)
	defer over.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if err := check(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over.C:
			return
		case <-again.C:
		}
	}
}

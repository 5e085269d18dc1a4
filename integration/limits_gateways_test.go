package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const unaryPath = echoMethod // its default binding

var remaining = regexp.MustCompile(`"app";r=(\d+);t=(\d+)`)

// left reads how many calls an answer says are left.
func left(t testing.TB, h http.Header) int {
	t.Helper()
	m := remaining.FindStringSubmatch(h.Get("RateLimit"))
	if m == nil {
		t.Fatalf("RateLimit is %q", h.Get("RateLimit"))
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Remaining falls to 0 by one with each call, whichever the protocol; then calls
// are refused, each in its protocol's way, with what and when.
func TestRateLimited(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "limits: {app: {rate: 60, per: 1h}, token: {daily: 1000}}\n")
	for want := 59; want >= 0; want-- {
		if want%3 == 1 { // over gRPC
			var header metadata.MD
			if _, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Header(&header)); err != nil {
				t.Fatal(err)
			}
			if got := left(t, http.Header{"Ratelimit": header.Get("ratelimit")}); got != want {
				t.Fatalf("%d are left, want %d", got, want)
			}
			continue
		}
		a := r.call(t, http.MethodPost, unaryPath, "{}")
		a.ok(t, "")
		if got := left(t, a.Header); got != want {
			t.Fatalf("%d are left, want %d", got, want)
		}
		if got, want := a.Header.Get("RateLimit-Policy"), `"app";q=60;w=3600, "token-daily";q=1000;w=86400`; got != want {
			t.Fatalf("the policy is %q, want %q", got, want)
		}
	}
	b.Take()
	a := r.call(t, http.MethodPost, unaryPath, "{}")
	a.failed(t, http.StatusTooManyRequests, codes.ResourceExhausted, "RATE_LIMITED")
	if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 30 || wait > 60 {
		t.Errorf("Retry-After is %q, want nearly a minute", a.Header.Get("Retry-After"))
	}
	if !strings.HasPrefix(a.Header.Get("RateLimit"), `"app";r=0;t=`) || a.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("it is told %q, %q", a.Header.Get("RateLimit"), a.Header.Get("RateLimit-Policy"))
	}
	if !strings.Contains(a.Body, `"limit":"app"`) {
		t.Errorf("it does not say which limit: %s", a.Body)
	}
	var trailer metadata.MD
	_, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Trailer(&trailer))
	grpcFailed(t, err, codes.ResourceExhausted, "RATE_LIMITED")
	if told := strings.Join(trailer.Get("ratelimit"), ""); !strings.HasPrefix(told, `"app";r=0;t=`) {
		t.Errorf("over gRPC it is told %q", told)
	}
	connect := r.call(t, http.MethodPost, echoMethod, "{}", "Content-Type", "application/json", "Connect-Protocol-Version", "1")
	if connect.Status != http.StatusTooManyRequests || !strings.Contains(connect.Body, "resource_exhausted") {
		t.Errorf("over Connect it gets %d %s", connect.Status, connect.Body)
	}
	web := r.call(t, http.MethodPost, echoMethod, "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc-web+proto")
	for protocol, h := range map[string]http.Header{"Connect": connect.Header, "gRPC-Web": web.Header} {
		if !strings.HasPrefix(h.Get("RateLimit"), `"app";r=0;t=`) || h.Get("RateLimit-Policy") == "" {
			t.Errorf("over %s it is told %v", protocol, h)
		}
	}
	untouched(t, b)
}

// A call is charged once: whatever is tried for it, and whatever becomes of it once
// it was counted. What no route is there for, or nobody was authenticated for, is
// not.
func TestCallsAreChargedOnce(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, neverGiveUp, "limits: {app: {rate: 1000, per: 24h}}\nroutes: [{method: testbackend.Echo/Unary, idempotent: true}]\n")
	b.Handle("Echo/Unary", failing(codes.Unavailable))
	first := r.call(t, http.MethodPost, unaryPath, "{}")
	before := left(t, first.Header)
	b.Take()
	for _, send := range []struct {
		what    string
		path    string
		body    string
		headers []string
		charged int
	}{
		{"one that no route is there for", "/nowhere", "{}", nil, 0},
		{"one with another's token", unaryPath, "{}", []string{"Authorization", "Bearer " + r.app + "." + madeUpToken(1)}, 0},
		{"one that is tried again", unaryPath, "{}", nil, 1},
		{"one whose body is wrong", unaryPath, "{", nil, 1},
	} {
		if send.headers != nil {
			r.do(t, r.http1, http.MethodPost, send.path, send.body, send.headers...)
		} else {
			r.call(t, http.MethodPost, send.path, send.body)
		}
		after := left(t, r.call(t, http.MethodPost, unaryPath, "{}").Header)
		if charged := before - after - 1; charged != send.charged {
			t.Errorf("%s is charged %d times, want %d", send.what, charged, send.charged)
		}
		before = after
	}
	if n := len(b.Take()); n < 10 {
		t.Errorf("%d attempts were made: nothing was tried again", n)
	}
}

// With headers off nobody is told.
func TestRateLimitHeadersOff(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "limits: {app: {rate: 2, per: 1h}, headers: false}\n")
	for range 3 {
		a := r.call(t, http.MethodPost, unaryPath, "{}")
		if len(a.Header.Values("RateLimit")) > 0 || len(a.Header.Values("RateLimit-Policy")) > 0 {
			t.Errorf("it is told %v", a.Header)
		}
	}
}

// A small limit is exact with one gateway, and with three lets through at most a
// call more for each.
func TestSmallRateOfThreeGateways(t *testing.T) {
	t.Parallel()
	const text = "limits: {app: {rate: 5, per: 1h}, gateways: %d}\n"
	for _, n := range []int{1, 3} {
		r, b := newEchoRig(t, "", fmt.Sprintf(text, n))
		gateways := []*rig{r}
		for len(gateways) < n {
			gateways = append(gateways, r.beside(t, echoConfig(b, "")+fmt.Sprintf(text, n)))
		}
		served := 0
		for i := range 30 {
			if a := gateways[i%n].call(t, http.MethodPost, unaryPath, "{}"); a.Status == http.StatusOK {
				served++
			}
		}
		if most := 5 + n; served < 5 || served > most || n == 1 && served != 5 {
			t.Errorf("%d gateways: %d calls of 5", n, served)
		}
	}
}

// A limit that is changed in an app's record holds within a second, with every
// gateway.
func TestRateChangesByPush(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	two := r.beside(t, echoConfig(b, ""))
	set := func(l config.Limits) {
		t.Helper()
		withStore(t, r.redis.Addr, func(ctx context.Context, s *tenant.Store) error {
			_, err := s.ChangeApp(ctx, r.app, tenant.AppChange{Limits: &l})
			return err
		})
	}
	for _, g := range []*rig{r, two} {
		g.heard(t, true)
		g.call(t, http.MethodPost, unaryPath, "{}").ok(t, "")
	}
	for _, policy := range []config.Limits{{Rate: 3, Per: time.Hour}, {Rate: 1000, Per: time.Hour}} {
		set(policy)
		changed := time.Now()
		for _, g := range []*rig{r, two} {
			gatewaytest.Eventually(t, func() error {
				a := g.call(t, http.MethodPost, unaryPath, "{}")
				if got, want := a.Header.Get("RateLimit-Policy"), fmt.Sprintf(`"app";q=%d;w=3600`, policy.Rate); got != want {
					return fmt.Errorf("the policy is %q, want %q", got, want)
				}
				return nil
			})
		}
		if took := time.Since(changed); took > 5*time.Second { // and not when what is remembered ends, after a minute
			t.Errorf("the change took %v", took)
		}
	}
}

// While the store of limits is gone, calls get what is configured and nothing
// else, none waits, and soon after its return the limit is shared again.
func TestLimiterStoreDown(t *testing.T) {
	t.Parallel()
	for down, tc := range map[string]struct {
		refusal int
		reason  string
	}{
		"local":  {http.StatusTooManyRequests, "RATE_LIMITED"},
		"open":   {http.StatusOK, ""},
		"closed": {http.StatusServiceUnavailable, "LIMITS_UNAVAILABLE"},
	} {
		for fault, f := range map[string]struct{ fail, mend func(*redistest.Server) }{
			"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart},
			"stopped": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		} {
			t.Run(down+" "+fault, func(t *testing.T) {
				t.Parallel()
				text := fmt.Sprintf("limits: {app: {rate: 60, burst: 12}, store_down: %s, gateways: 3}\nauth: {mode: lenient}\n", down)
				b := testbackend.Start(t)
				r := &rig{redis: redistest.Start(t, redistest.Options{Persist: true}), app: "acme"}
				r.token = issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app}).Secret
				r.start(t, "", echoConfig(b, "")+text)
				gateways := []*rig{r, r.beside(t, echoConfig(b, "")+text), r.beside(t, echoConfig(b, "")+text)}
				c := startCallers(t, gateways)
				gatewaytest.Eventually(t, func() error { return c.refused("RATE_LIMITED") })
				f.fail(r.redis)
				for _, g := range gateways {
					g.awaitMetric(t, 0, "rpcgate_limits_store_up")
				}
				c.reset()
				if tc.reason != "" {
					gatewaytest.Eventually(t, func() error { return c.refused(tc.reason) })
				}
				gatewaytest.Eventually(t, func() error { return c.made(300) })
				for status, n := range c.statuses() {
					if status != http.StatusOK && status != tc.refusal && (down != "closed" || status != http.StatusTooManyRequests) {
						t.Errorf("%d calls got %d", n, status)
					}
				}
				if served := c.statuses()[http.StatusOK]; (served > 0) == (down == "closed") && served > 20 {
					t.Errorf("%d calls were served", served)
				}
				if slowest := time.Duration(c.slowest.Load()); slowest > time.Second {
					t.Errorf("a call took %v", slowest)
				}
				f.mend(r.redis)
				back := time.Now()
				for _, g := range gateways {
					g.awaitMetric(t, 1, "rpcgate_limits_store_up")
				}
				if took := time.Since(back); took > 3*time.Second {
					t.Errorf("it took %v until limits were shared again", took)
				}
				c.reset()
				gatewaytest.Eventually(t, func() error { return c.refused("RATE_LIMITED") })
			})
		}
	}
}

// callers call gateways without a pause.
type callers struct {
	slowest atomic.Int64

	mu     sync.Mutex
	status map[int]int
	reason map[string]int
}

func startCallers(t *testing.T, gateways []*rig) *callers {
	t.Helper()
	c := &callers{}
	c.reset()
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		tasks.Wait()
	})
	reasons := regexp.MustCompile(`"reason":"([A-Z_]+)"`)
	for _, g := range gateways {
		tasks.Go(func() {
			pause := time.NewTicker(5 * time.Millisecond) // 200/s each at most
			defer pause.Stop()
			for ctx.Err() == nil {
				<-pause.C
				start := time.Now()
				resp, err := g.http1.Do(g.request(t, ctx, http.MethodPost, unaryPath, "{}", "Authorization", g.bearer()))
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				took := int64(time.Since(start))
				c.slowest.Store(max(c.slowest.Load(), took))
				c.mu.Lock()
				c.status[resp.StatusCode]++
				if m := reasons.FindSubmatch(body); m != nil {
					c.reason[string(m[1])]++
				}
				c.mu.Unlock()
			}
		})
	}
	return c
}

func (c *callers) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.reason = map[int]int{}, map[string]int{}
	c.slowest.Store(0)
}

func (c *callers) statuses() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[int]int{}
	for status, n := range c.status {
		all[status] = n
	}
	return all
}

func (c *callers) refused(reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason[reason] == 0 {
		return fmt.Errorf("no call was refused as %s: %v %v", reason, c.status, c.reason)
	}
	return nil
}

func (c *callers) made(n int) error {
	all := 0
	for _, k := range c.statuses() {
		all += k
	}
	if all < n {
		return fmt.Errorf("%d calls were made", all)
	}
	return nil
}

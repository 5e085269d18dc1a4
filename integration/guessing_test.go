package integration_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// clientFrom makes requests from one address of the loopback network.
func clientFrom(t *testing.T, ip string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testLimit}
}

// commands is how many commands a Redis has served.
func (r *rig) commands(t *testing.T) int {
	t.Helper()
	cfg := config.Defaults()
	cfg.Redis.Addresses = []string{r.redis.Addr}
	rdb, err := auth.Open(cfg.Redis)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	text, err := rdb.Info(limited(t), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "total_commands_processed:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lookUps is how many credentials the gateway has asked Redis for.
func (r *rig) lookUps() int { return int(r.Metric("rpcgate_auth_lookup_duration_seconds")) }

// Who makes up tokens is soon told to wait, and asks nothing of Redis any more;
// known credentials pass at the same address, and others from other addresses.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "auth: {guessing: {per_address: 20, per_app: 1000, per: 1h}}\n")
	second := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app}).Secret
	third := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app}).Secret
	attacker, elsewhere := clientFrom(t, "127.0.0.1"), clientFrom(t, "127.0.0.2")
	call := func(client *http.Client, app, token string, more ...string) answer {
		t.Helper()
		return r.do(t, client, "GET", "/v1/echo", "", append([]string{"Authorization", "Bearer " + app + "." + token}, more...)...)
	}
	call(attacker, r.app, r.token).ok(t, "") // known from here on
	b.Take()

	// Malformed ones cost Redis nothing, however many there are.
	before, looked := r.commands(t), r.lookUps()
	for i := range 2000 {
		token := madeUpToken(i)
		call(attacker, r.app, token[:len(token)-1]+"x").failed(t, http.StatusUnauthorized, codes.Unauthenticated, "TOKEN_INVALID")
	}
	if n := r.lookUps() - looked; n != 0 {
		t.Errorf("%d look-ups for malformed tokens", n)
	}
	// The gateway's own heartbeat goes on.
	if n := r.commands(t) - before; n > 200 {
		t.Errorf("%d commands for 2000 malformed tokens", n)
	}

	// Well-formed ones cost as many look-ups as may fail, whatever a caller says of
	// where it comes from.
	before, looked = r.commands(t), r.lookUps()
	refused := 0
	for i := range 1000 {
		a := call(attacker, r.app, madeUpToken(i), "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%250))
		if a.Status == http.StatusTooManyRequests {
			a.failed(t, http.StatusTooManyRequests, codes.ResourceExhausted, "TOO_MANY_FAILURES")
			if a.Header.Get("Retry-After") == "" {
				t.Fatal("it is not said when to come again")
			}
			refused++
			continue
		}
		a.failed(t, http.StatusUnauthorized, codes.Unauthenticated, "TOKEN_INVALID")
	}
	if n := r.lookUps() - looked; n > 21 || refused < 979 {
		t.Errorf("%d look-ups and %d refusals for 1000 guesses, want 20 and 980", n, refused)
	}
	if n := r.commands(t) - before; n > 220 {
		t.Errorf("%d commands for 1000 guesses", n)
	}
	untouched(t, b)
	if n := r.Metric("rpcgate_auth_total", "outcome", "throttled"); int(n) != refused {
		t.Errorf("%v refusals are counted, want %d", n, refused)
	}

	call(attacker, r.app, r.token).ok(t, "")
	call(attacker, r.app, second).failed(t, http.StatusTooManyRequests, codes.ResourceExhausted, "TOO_MANY_FAILURES")
	call(elsewhere, r.app, second).ok(t, "")
	call(attacker, r.app, second).ok(t, "") // it is known now
	_, err := invoke(metadata.AppendToOutgoingContext(limited(t), "app", r.app, "token", madeUpToken(5000)), r.conn, unaryEcho, nil)
	grpcFailed(t, err, codes.ResourceExhausted, "TOO_MANY_FAILURES")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.3")}}
	conn := dial(t, r.GRPC, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return from.DialContext(ctx, "tcp", addr)
	}))
	if _, err := invoke(metadata.AppendToOutgoingContext(limited(t), "app", r.app, "token", third), conn, unaryEcho, nil); err != nil {
		t.Error(err)
	}
	// No app that is only claimed has a series.
	if n := r.Metric("rpcgate_app_calls_total", "outcome", "caller"); n != 0 {
		t.Errorf("%v calls are accounted that nobody was authenticated for", n)
	}
}

// Behind a proxy that is trusted, the address that it names counts.
func TestGuessesBehindAProxy(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "http: {address: '127.0.0.1:0', trusted_proxies: [127.0.0.1]}\nauth: {guessing: {per_address: 5, per: 1h}}\n")
	for i := range 100 {
		// All of one /64, and of what the attacker puts before it, nothing.
		r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", "Bearer "+r.app+"."+madeUpToken(i),
			"X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 2001:db8::%x", i, i))
	}
	if n := r.lookUps(); n > 6 {
		t.Errorf("%d look-ups, want 5", n)
	}
	r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", r.bearer(), "X-Forwarded-For", "2001:db8::7").
		failed(t, http.StatusTooManyRequests, codes.ResourceExhausted, "TOO_MANY_FAILURES")
	r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", r.bearer(), "X-Forwarded-For", "2001:db8:0:1::7").ok(t, "")
}

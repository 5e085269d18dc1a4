package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// errGone is a call that was never taken: nobody listens any more. A load
// balancer that looks at readiness would not have made it.
var errGone = errors.New("nobody listens")

// untilGone makes a refused connection errGone, so that it can be told from a
// call that was taken and lost.
func untilGone(call callFunc) callFunc {
	return func(ctx context.Context) error {
		err := call(ctx)
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return errGone
		}
		if s, ok := status.FromError(err); ok && s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connection refused") {
			return errGone
		}
		return err
	}
}

func (r *rig) readyz() int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+r.Admin+"/readyz", http.NoBody)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// Callers over gRPC go on until nobody listens, those over HTTP until the load
// balancer looks away, which it does within the delay. None of them loses a call,
// though they have their connections open all the time, and none that no client
// may repeat (POST).
func TestDrainLosesNoCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings string
		http     int // callers
	}{
		"with a delay": {"shutdown: {delay: 2s}\n", 4},
		"at once":      {"shutdown: {delay: 0s}\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			slowly(b, 20*time.Millisecond)
			r := newRig(t, echoConfig(b, "")+tc.settings+quiet)
			var away atomic.Bool
			untilAway := func(call callFunc) callFunc {
				return func(ctx context.Context) error {
					if away.Load() {
						return errGone
					}
					return call(ctx)
				}
			}
			callers := newLoad(t)
			callers.add(tc.http, untilAway(r.echoing()))
			callers.add(tc.http, untilAway(r.posting(r.http2, r.app, r.token, "/v1/echo", `{"text": "hello"}`)))
			callers.add(4, untilGone(r.invoking(r.conn)))
			callers.awaitMore(200)
			callers.only()
			r.Signal(syscall.SIGTERM)
			gatewaytest.Eventually(t, func() error {
				if got := r.readyz(); got == http.StatusOK {
					return errors.New("it is still ready")
				}
				return nil
			})
			callers.awaitMore(tc.http * 10) // calls are taken as before
			away.Store(true)
			if exit := r.ExitCode(); exit != 0 {
				t.Errorf("exit status %d", exit)
			}
			callers.awaitFailures(16, errGone.Error())
			callers.stop()
			callers.only(errGone.Error())
		})
	}
}

// slowly has calls of Echo/Unary take a while.
func slowly(b *testbackend.Server, d time.Duration) {
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		pause := time.NewTimer(d)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-s.Context().Done():
			return s.Context().Err()
		}
		return s.Send(msg)
	})
}

// Readiness goes off first, over HTTP and gRPC, while every listener still takes
// new connections and calls.
func TestReadinessGoesOffFirst(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "shutdown: {delay: 1s}\n")
	gatewaytest.Eventually(t, func() error { // it is ready once it has reached its store
		if got := r.readyz(); got != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", got)
		}
		return nil
	})
	watch, err := healthpb.NewHealthClient(r.conn).Watch(limited(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch.Recv()
	for err == nil && first.GetStatus() != healthpb.HealthCheckResponse_SERVING { // it is told of that a moment later
		first, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.Signal(syscall.SIGTERM)
	gatewaytest.Eventually(t, func() error {
		if got := r.readyz(); got != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz answers %d", got)
		}
		return nil
	})
	if next, err := watch.Recv(); err != nil || next.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health is %v, %v", next, err)
	}
	if got := r.AdminGet("/healthz"); !strings.Contains(got, "ok") {
		t.Errorf("/healthz answers %s", got)
	}
	must(t, r.posting(httpClient(t, false), r.app, r.token, "/v1/echo", `{}`))
	must(t, r.posting(httpClient(t, true), r.app, r.token, "/v1/echo", `{}`))
	must(t, r.invoking(dial(t, r.GRPC)))
	if exit := r.ExitCode(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	// A watch has no end of its own, and holds up nothing.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
}

// Streams go on after the stop began, until they end: their callers are told to
// go elsewhere with what is new (GOAWAY), and that is refused here.
func TestStreamsFinishDuringDrain(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+"shutdown: {delay: 0s, drain_timeout: 30s}\n")
	bidi, lines, end := r.openStreams(t, b)
	r.Signal(syscall.SIGTERM)
	r.WaitLog("draining")
	comesTo(t, untilGone(r.invoking(r.conn)), errGone.Error())
	comesTo(t, untilGone(r.echoing()), errGone.Error())
	for range 10 {
		echoes(t, bidi)
	}
	select {
	case <-r.Done():
		t.Fatal("the gateway ended with streams in flight")
	default:
	}
	close(end)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "hello") {
		t.Errorf("the stream went on with %q, %v", line, err)
	}
	if _, err := lines.ReadString('\n'); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if err := bidi.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := bidi.recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if exit := r.ExitCode(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
}

// At the drain limit streams are cut off, and the exit status is 0 all the same.
func TestStreamsAreCutAtTheDrainLimit(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, "")+"shutdown: {delay: 0s, drain_timeout: 700ms}\n")
	bidi, lines, _ := r.openStreams(t, b)
	began := time.Now()
	if exit := r.Stop(); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	if took := time.Since(began); took < 700*time.Millisecond || took > 700*time.Millisecond+2*slack {
		t.Errorf("the stop took %v, the limit is 700ms", took)
	}
	if _, err := bidi.recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the gRPC stream ended with %v", err)
	}
	if rest, err := io.ReadAll(lines); err == nil && !strings.Contains(string(rest), "error") {
		t.Errorf("the JSON stream ended as if all was well, with %q", rest)
	}
	r.WaitLog("drain limit reached")
}

// A second signal ends at once, whatever is in flight.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, echoConfig(b, ""))
	r.openStreams(t, b)
	r.Signal(syscall.SIGTERM)
	r.WaitLog("draining")
	r.Signal(syscall.SIGTERM)
	began := time.Now()
	if exit := r.ExitCode(); exit == 0 {
		t.Error("exit status 0, though calls were cut off")
	}
	if took := time.Since(began); took > slack {
		t.Errorf("it took %v to end", took)
	}
}

// balancedClient is a caller that knows two gateways and goes by their
// readiness, as a load balancer does.
type balancedClient struct {
	gateways [2]atomic.Pointer[rig]
	ready    [2]atomic.Bool
	next     atomic.Int64
}

// check looks at readiness until ctx ends.
func (c *balancedClient) check(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for i := range c.gateways {
			c.ready[i].Store(c.gateways[i].Load().readyz() == http.StatusOK)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *balancedClient) call(ctx context.Context) error {
	i := int(c.next.Add(1)) % len(c.gateways)
	if !c.ready[i].Load() {
		i = 1 - i
	}
	return c.gateways[i].Load().echoing()(ctx)
}

// Two gateways are restarted one after the other, under load, by a client that
// heeds readiness (HTTP) and one that knows both addresses (gRPC). No call is
// lost, and none is repeated.
func TestRollingRestartOfGatewaysLosesNoCall(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	first := newRig(t, echoConfig(b, "")+"shutdown: {delay: 1s}\n"+quiet)
	config := func(r *rig) string {
		return fmt.Sprintf("http: {address: %q}\ngrpc: {address: %q}\nadmin: {address: %q}\n", r.HTTP, r.GRPC, r.Admin) +
			echoConfig(b, "") + "shutdown: {delay: 1s}\n" + quiet
	}
	client := new(balancedClient)
	gateways := []*rig{first, first.beside(t, echoConfig(b, "")+"shutdown: {delay: 1s}\n"+quiet)}
	addresses := manual.NewBuilderWithScheme("gateways")
	state := resolver.State{}
	for i, g := range gateways {
		client.gateways[i].Store(g)
		state.Addresses = append(state.Addresses, resolver.Address{Addr: g.GRPC})
	}
	addresses.InitialState(state)
	conn, err := grpc.NewClient("gateways:///", grpc.WithResolvers(addresses),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	ctx, cancel := context.WithCancel(context.Background())
	checked := make(chan struct{})
	go func() { defer close(checked); client.check(ctx) }()
	t.Cleanup(func() { cancel(); <-checked; http.DefaultClient.CloseIdleConnections() })
	gatewaytest.Eventually(t, func() error {
		if !client.ready[0].Load() || !client.ready[1].Load() {
			return errors.New("not ready")
		}
		return nil
	})

	callers := startLoad(t, 3, client.call, first.invoking(conn))
	for i, g := range gateways {
		if exit := g.Stop(); exit != 0 {
			t.Fatalf("exit status %d", exit)
		}
		again := first.beside(t, config(g))
		client.gateways[i].Store(again)
		gatewaytest.Eventually(t, func() error {
			if !client.ready[i].Load() {
				return errors.New("not ready")
			}
			return nil
		})
		gatewaytest.Eventually(t, func() error {
			if n := again.Metric("rpcgate_calls_total", "protocol", "grpc"); n < 5 {
				return fmt.Errorf("%v gRPC calls came so far", n)
			}
			return nil
		})
	}
	callers.stop()
	callers.only()
	if n := len(b.Take()); n > callers.succeeded() {
		t.Errorf("%d calls reached the backend, %d were made", n, callers.succeeded())
	}
}

// Callers over HTTP are told to look for another connection while there is time,
// instead of having theirs closed under them.
func TestDrainClosesKeptConnectionsInOrder(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*rig) *http.Client{
		"HTTP1": func(r *rig) *http.Client { return r.http1 }, "h2c": func(r *rig) *http.Client { return r.http2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newEchoRig(t, "", "shutdown: {delay: 2s}\n")
			ask := func() (reused bool) {
				t.Helper()
				ctx := httptrace.WithClientTrace(limited(t), &httptrace.ClientTrace{
					GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
				})
				must(t, func(context.Context) error {
					return send(client(r), r.request(t, ctx, http.MethodPost, "/v1/echo", "{}", "Authorization", r.bearer()))
				})
				return reused
			}
			ask()
			if !ask() {
				t.Fatal("the connection is not kept")
			}
			r.Signal(syscall.SIGTERM)
			r.WaitLog("draining")
			ask() // learns it from the answer
			if ask() {
				t.Error("the connection was used again after the stop had begun")
			}
		})
	}
}

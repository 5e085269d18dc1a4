package integration_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// sickness is a backend's method that fails while it is told to.
type sickness struct {
	sick  atomic.Bool
	calls atomic.Int64
}

func (s *sickness) handle(stream *testbackend.Stream) error {
	s.calls.Add(1)
	if s.sick.Load() {
		return status.Error(codes.Unavailable, "sick")
	}
	msg, err := stream.Recv()
	if err != nil {
		return err
	}
	return stream.Send(msg)
}

// A method that fails is called no more, and callers are told when to come
// again. Once it is well, everybody is served again within seconds, though none
// of them ever stopped calling.
func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		settings  string
		recovered time.Duration
	}{
		"adaptive":  {"breaker: {kind: adaptive}", 10 * time.Second},
		"threshold": {"breaker: {kind: threshold, threshold: {open_timeout: 1s}}", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			method := new(sickness)
			b.Handle("Echo/Unary", method.handle)
			r := newRig(t, echoConfig(b, kind.settings)+quiet)
			callers := startLoad(t, 4, r.echoing(), r.invoking(r.conn))

			method.sick.Store(true)
			callers.awaitFailures(200, "BREAKER_OPEN")
			refusedInTime(t, r)
			// What still gets through is probes.
			calls, refused := method.calls.Load(), callers.reasons()["BREAKER_OPEN"]
			stays(t, 3*time.Second, func() error { return nil })
			callers.awaitFailures(100, "BREAKER_OPEN")
			probes := method.calls.Load() - calls
			if n := int64(callers.reasons()["BREAKER_OPEN"] - refused); probes > n/4 {
				t.Errorf("%d calls reached the sick method while %d were refused", probes, n)
			}
			if got := r.Metric("rpcgate_breaker_rejections_total"); got < 300 {
				t.Errorf("the metric counts %v rejections", got)
			}

			method.sick.Store(false)
			well := time.Now()
			last := callers.steady(2 * time.Second)
			if took := last.Sub(well); took > kind.recovered {
				t.Errorf("calls were still refused %v after the method was well", took)
			}
			callers.stop()
			callers.only("BREAKER_OPEN", "rpc error: code = Unavailable desc = sick", backendSaid)
			t.Logf("well again after %v", last.Sub(well))
			if got := r.Metric("rpcgate_breaker_state"); got != 0 {
				t.Errorf("the breaker's state is %v", got)
			}
		})
	}
}

// backendSaid is what a JSON caller is told of a sick backend, as reasonFor has
// it.
const backendSaid = `503 : {"code":14,"message":"sick","details":[]}`

// refusedInTime looks at a refusal in either protocol. Now and then a call is let
// through instead.
func refusedInTime(t *testing.T, r *rig) {
	t.Helper()
	ctx := limited(t)
	gatewaytest.Eventually(t, func() error {
		began := time.Now()
		err := r.echoing()(ctx)
		var refused *refusal
		if !errors.As(err, &refused) || refused.reason != "BREAKER_OPEN" {
			return err
		}
		if refused.Status != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") != "1" && refused.Header.Get("Retry-After") != "2" {
			t.Errorf("refused with %v, Retry-After %q", refused, refused.Header.Get("Retry-After"))
		}
		if took := time.Since(began); took > slack {
			t.Errorf("a refusal took %v", took)
		}
		return nil
	})
	gatewaytest.Eventually(t, func() error {
		err := r.invoking(r.conn)(ctx)
		s := status.Convert(err)
		if reasonOf(s) != "BREAKER_OPEN" {
			return err
		}
		var retry *errdetails.RetryInfo
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				retry = info
			}
		}
		if s.Code() != codes.Unavailable || retry.GetRetryDelay().AsDuration() <= 0 {
			t.Errorf("refused with %v, %v", err, retry)
		}
		return nil
	})
}

// What one method does is not held against another of the same backend, nor the
// other way round.
func TestBreakerIsPerMethod(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"adaptive", "threshold"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			method := new(sickness)
			b.Handle("Echo/Unary", method.handle)
			r := newRig(t, echoConfig(b, "breaker: {kind: "+kind+"}")+quiet)
			others := startLoad(t, 2, r.getting("/admin/A"), r.getting("/v1/echo:stream?text=hello"))
			method.sick.Store(true)
			sick := startSickLoad(t, r)
			sick.awaitFailures(200, "BREAKER_OPEN")
			others.awaitMore(100)
			others.stop()
			others.only()
			ends(t, r.getting("/admin/A"), "OK")
		})
	}
}

// startSickLoad is startLoad for calls that need not succeed at first.
func startSickLoad(t *testing.T, r *rig) *load {
	t.Helper()
	l := newLoad(t)
	l.add(4, r.echoing())
	return l
}

// Streams are guarded like unary calls.
func TestBreakerGuardsStreams(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	method := new(sickness)
	b.Handle("Echo/ServerStream", method.handle)
	r := newRig(t, echoConfig(b, "breaker: {kind: threshold, threshold: {open_timeout: 500ms}}")+quiet)
	stream := r.getting("/v1/echo:stream?text=hello")
	must(t, stream)
	method.sick.Store(true)
	comesTo(t, stream, "BREAKER_OPEN")
	must(t, r.echoing())
	method.sick.Store(false)
	comesTo(t, stream, "OK")
}

// What has nothing to do with the backend opens nothing: credentials that are
// made up, requests that are wrong, deadlines that are the caller's own.
func TestCallersCannotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"adaptive", "threshold"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := testbackend.Start(t)
			b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
				msg, err := s.Recv()
				if err != nil {
					return err
				}
				if strings.Contains(string(msg), "slow") {
					<-s.Context().Done()
					return s.Context().Err()
				}
				return s.Send(msg)
			})
			r := newRig(t, echoConfig(b, "breaker: {kind: "+kind+"}")+"auth: {guessing: {per_address: 0, per_app: 0}}\n"+quiet)
			bully := issueToken(t, r.redis.Addr, tenant.IssueOptions{App: "bully"}).Secret
			good := startLoad(t, 2, r.echoing())
			bad := newLoad(t)
			var n atomic.Int64
			bad.add(2, func(ctx context.Context) error {
				return r.echoingAs("bully", madeUpToken(int(n.Add(1))))(ctx)
			})
			bad.add(2, r.posting(r.http1, "bully", bully, "/v1/echo", `{"text": `))
			bad.add(2, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				slow := &rig{app: "bully", token: bully}
				_, err := invoke(slow.as(ctx), r.conn, echoUnary, []byte("\x0a\x04slow"))
				if status.Code(err) == codes.DeadlineExceeded {
					return errOwnDeadline
				}
				return err
			})
			for _, reason := range []string{"TOKEN_INVALID", "BAD_REQUEST", errOwnDeadline.Error()} {
				bad.awaitFailures(100, reason)
			}
			bad.stop()
			bad.only("TOKEN_INVALID", "BAD_REQUEST", errOwnDeadline.Error())
			good.stop()
			good.only()
			if got := r.Metric("rpcgate_breaker_rejections_total"); got != 0 {
				t.Errorf("%v calls were refused by the breaker", got)
			}
		})
	}
}

var errOwnDeadline = errors.New("the caller's own deadline passed")

// A backend that only takes its time is sick as well: the gateway's own limit
// counts, and so does what the backend says of it.
func TestTimeoutsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	var slow atomic.Bool
	well := make(chan struct{})
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		if slow.Load() {
			<-well // says nothing, not even that its time is up
		}
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(msg)
	})
	r := newRig(t, echoConfig(b, "timeout: 100ms\nbreaker: {kind: threshold, threshold: {open_timeout: 500ms}}")+quiet)
	comesTo(t, r.echoing(), "OK")
	slow.Store(true)
	l := newLoad(t)
	l.add(4, r.echoing())
	l.awaitFailures(5, "DEADLINE_EXCEEDED")
	l.awaitFailures(50, "BREAKER_OPEN")
	slow.Store(false)
	close(well)
	mended := time.Now()
	last := l.steady(time.Second)
	if took := last.Sub(mended); took > 3*time.Second {
		t.Errorf("calls were still refused %v after the method was well", took)
	}
	l.stop()
	l.only("BREAKER_OPEN", "DEADLINE_EXCEEDED")
}

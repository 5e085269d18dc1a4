package rpcproxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// sick is a backend that can be made to fail.
type sick struct {
	code  atomic.Uint32
	calls atomic.Int64
}

func (s *sick) handle(_ any, ss grpc.ServerStream) error {
	s.calls.Add(1)
	if code := codes.Code(s.code.Load()); code != codes.OK {
		return status.Error(code, "sick")
	}
	return echo(nil, ss)
}

func thresholdBreaker(c *config.Backend) {
	c.Breaker.Kind = "threshold"
	c.Breaker.Threshold.ConsecutiveFailures = 5
	c.Breaker.Threshold.OpenTimeout = time.Minute
}

func TestBreakerGuardsUnaryAndStream(t *testing.T) {
	for _, r := range roads() {
		t.Run(road(r), func(t *testing.T) {
			h := &sick{}
			h.code.Store(uint32(codes.Internal))
			s := serve(t, h.handle)
			b := newBackend(t, s.addr, func(c *config.Backend) {
				thresholdBreaker(c)
				c.Breaker.Threshold.OpenTimeout = 500 * time.Millisecond
			}, Options{})
			forward := func(method, name string) error {
				r := r
				r.Method, r.Credential = method, app(name)
				return b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
			}
			for i := range 5 { // of different apps
				if err := forward(testMethod, string(rune('a'+i))); status.Code(err) != codes.Internal {
					t.Fatal(err)
				}
			}
			err := forward(testMethod, "z")
			var open *BreakerOpenError
			if !errors.As(err, &open) || open.Backend != "test" || open.Method != testMethod || open.RetryAfter <= 0 {
				t.Fatalf("Forward: %T %v, want a BreakerOpenError", err, err)
			}
			if h.calls.Load() != 5 {
				t.Errorf("%d calls reached the backend", h.calls.Load())
			}
			// Another method is not concerned.
			h.code.Store(uint32(codes.OK))
			if err := forward("/test.Service/Other", "a"); err != nil {
				t.Error(err)
			}
			waitFor(t, "the breaker to close", func() bool { return forward(testMethod, "a") == nil })
		})
	}
}

// One app's deadlines, cancellations and bad requests leave the breaker closed
// for the others.
func TestBreakerIsNotTheCallers(t *testing.T) {
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		<-ss.Context().Done()
		return status.FromContextError(ss.Context().Err()).Err()
	}, grpc.MaxHeaderListSize(4096))
	b := newBackend(t, s.addr, thresholdBreaker, Options{})
	for range 10 {
		r := &Request{Method: testMethod, Deadline: time.Now().Add(5 * time.Millisecond)}
		_ = b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		_ = b.Forward(ctx, &Request{Method: testMethod}, &exchange{requests: []string{"x"}})
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(5*time.Millisecond, cancel)
		_ = b.Forward(ctx, &Request{Method: testMethod}, &exchange{requests: []string{"x"}})
		_ = b.Forward(testContext(t), &Request{Method: testMethod}, &exchange{})
	}
	// grpc-go refuses to send these, with the code of a sick backend.
	for name, md := range map[string]metadata.MD{
		"bad key":   {"x!y": {"v"}},
		"bad value": {"x": {"\xff"}},
		"too large": {"x": {strings.Repeat("v", 8192)}},
	} {
		for i := range 12 {
			r := roads()[i%4]
			r.Metadata = md
			err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
			if !is[*LocalError](err) || status.Code(err) != codes.Internal {
				t.Fatalf("%s, %s: %T %v, want a LocalError", name, road(r), err, err)
			}
		}
	}
	m, err := b.methods.get(testMethod)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.breaker.State().String(); got != "closed" {
		t.Errorf("the breaker is %s", got)
	}
	// The gateway's own limit is the backend's fault.
	for range 5 {
		_ = b.Forward(testContext(t), &Request{Method: testMethod, Timeout: 5 * time.Millisecond}, &exchange{requests: []string{"x"}})
	}
	if got := m.breaker.State().String(); got != "open" {
		t.Errorf("after five timeouts the breaker is %s", got)
	}
}

// A stream whose header came is an answer, though no message follows.
func TestBreakerClosesOnAHeader(t *testing.T) {
	var well atomic.Bool
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		if !well.Load() {
			return status.Error(codes.Internal, "sick")
		}
		if err := ss.SendHeader(nil); err != nil {
			return err
		}
		<-ss.Context().Done()
		return nil
	})
	b := newBackend(t, s.addr, func(c *config.Backend) {
		thresholdBreaker(c)
		c.Breaker.Threshold.OpenTimeout = time.Millisecond
	}, Options{})
	r := &Request{Method: testMethod, ServerStreams: true}
	for range 5 {
		_ = b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
	}
	m, err := b.methods.get(testMethod)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the breaker to be half-open", func() bool { return m.breaker.State() == breaker.HalfOpen })
	well.Store(true)
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error)
	go func() { ended <- b.Forward(ctx, r, &exchange{requests: []string{"x"}}) }()
	waitFor(t, "the breaker to close", func() bool { return m.breaker.State() == breaker.Closed })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestBreakersAreBounded(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	ms := newMethods(config.DefaultBackend("b"), m, slog.New(slog.DiscardHandler))
	for i := range maxMethods + 100 {
		if _, err := ms.get(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(ms.all()); n != maxMethods+1 {
		t.Errorf("%d methods are kept, want %d and one for the rest", n, maxMethods)
	}
}

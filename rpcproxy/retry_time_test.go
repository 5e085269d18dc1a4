package rpcproxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// timed is a backend whose attempts end as a test says, in a bubble's time.
type timed struct {
	*Backend
	start time.Time
	begun []time.Duration
}

// timedBackend takes every pause at its longest.
func timedBackend(t *testing.T, change func(*config.Backend), send func(a *attempt, ctx context.Context, n int) error) *timed {
	t.Helper()
	b := &timed{Backend: newBackend(t, "127.0.0.1:1", func(c *config.Backend) {
		c.Timeout, c.DeadlineReserve = 0, 0
		c.Breaker.Kind = "off"
		c.Pool.IdleTimeout = 0
		if change != nil {
			change(c)
		}
	}, Options{}), start: time.Now()}
	b.retrier.random = func() float64 { return 1 }
	b.retrier.send = func(a *attempt, ctx context.Context) error {
		b.begun = append(b.begun, time.Since(b.start))
		return send(a, ctx, len(b.begun))
	}
	return b
}

func (b *timed) call(ctx context.Context, r Request) error {
	r.Method = testMethod
	return b.Forward(ctx, &r, &exchange{requests: []string{"x"}})
}

// unavailable ends an attempt that was sent.
func unavailable(a *attempt, trailer ...string) error {
	a.peer.Addr, a.reached = &net.TCPAddr{}, true
	a.trailer = metadata.Pairs(trailer...)
	return &StatusError{Status: status.New(codes.Unavailable, "")}
}

const ms = time.Millisecond

func TestBackoff(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*config.Backend)
		pushback map[int]string // by attempt
		random   float64
		want     []time.Duration
	}{
		"doubles":           {random: 1, want: []time.Duration{0, 25 * ms, 75 * ms, 175 * ms, 375 * ms}},
		"full jitter":       {random: .1, want: []time.Duration{0, 2500 * time.Microsecond, 7500 * time.Microsecond, 17500 * time.Microsecond, 37500 * time.Microsecond}},
		"none":              {random: 0, want: []time.Duration{0, 0, 0, 0, 0}},
		"up to a bound":     {change: func(c *config.Backend) { c.Retry.MaxBackoff = 40 * ms }, random: 1, want: []time.Duration{0, 25 * ms, 65 * ms, 105 * ms, 145 * ms}},
		"push-back":         {pushback: map[int]string{2: "300"}, random: 1, want: []time.Duration{0, 25 * ms, 325 * ms, 350 * ms, 400 * ms}},
		"too long a wait":   {pushback: map[int]string{1: "60001"}, random: 1, want: []time.Duration{0}},
		"as long as can be": {pushback: map[int]string{1: "60000", 2: "-1"}, random: 1, want: []time.Duration{0, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := timedBackend(t, func(c *config.Backend) {
					c.Retry.MaxAttempts, c.Retry.Budget.MinPerSecond = 5, 100
					if tt.change != nil {
						tt.change(c)
					}
				}, func(a *attempt, _ context.Context, n int) error {
					if p := tt.pushback[n]; p != "" {
						return unavailable(a, pushbackKey, p)
					}
					return unavailable(a)
				})
				b.retrier.random = func() float64 { return tt.random }
				err := b.call(t.Context(), Request{Idempotent: true})
				if status.Code(err) != codes.Unavailable || !slices.Equal(b.begun, tt.want) {
					t.Errorf("attempts at %v, want %v; %v", b.begun, tt.want, err)
				}
			})
		})
	}
}

func TestPauseDoesNotOverflow(t *testing.T) {
	r := newRetrier(config.Retry{Backoff: time.Hour, MaxBackoff: 24 * time.Hour})
	r.random = func() float64 { return 1 }
	for before := range 100 {
		if d := r.pause(before); d < time.Hour || d > 24*time.Hour {
			t.Errorf("after %d: %v", before, d)
		}
	}
}

// All attempts together have the call's limit, and one that could not answer in
// time is not begun.
func TestRetryWithinTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, usual, takes time.Duration
		attempts            int
	}{
		"time enough":              {200 * ms, 0, 10 * ms, 3},
		"too little for the pause": {50 * ms, 0, 30 * ms, 1},
		"too little for an answer": {200 * ms, 150 * ms, 40 * ms, 1},
		"too little for a third":   {130 * ms, 0, 40 * ms, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := timedBackend(t, nil, func(a *attempt, ctx context.Context, _ int) error {
					if d, ok := ctx.Deadline(); !ok || d.Sub(start) > tt.limit {
						t.Errorf("an attempt has until %v", d)
					}
					sleep(ctx, tt.takes)
					return unavailable(a)
				})
				for range warm {
					if tt.usual > 0 {
						mustMethod(t, b.Backend).usual.observe(tt.usual)
					}
				}
				err := b.call(t.Context(), Request{Idempotent: true, Timeout: tt.limit})
				if status.Code(err) != codes.Unavailable || len(b.begun) != tt.attempts || time.Since(b.start) > tt.limit {
					t.Errorf("%v after %v, attempts at %v, want %d", err, time.Since(b.start), b.begun, tt.attempts)
				}
			})
		})
	}
}

// An attempt that takes too long is given up, if another one can follow.
func TestAttemptTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		request  Request
		limit    time.Duration
		hangs    int // so many attempts
		backend  bool
		attempts int
		late     time.Duration // of the error; 0: none
	}{
		"may be repeated":         {Request{Idempotent: true}, time.Second, 2, false, 3, 0},
		"may not":                 {Request{}, time.Second, 1, false, 1, time.Second},
		"all of them":             {Request{Idempotent: true}, time.Second, 9, false, 3, time.Second},
		"the call's comes first":  {Request{Idempotent: true}, 50 * ms, 9, false, 1, 50 * ms},
		"the backend notices":     {Request{Idempotent: true}, time.Second, 1, true, 2, 0},
		"a stream has no such":    {Request{Idempotent: true, ServerStreams: true}, time.Second, 1, false, 1, time.Second},
		"the call's comes second": {Request{Idempotent: true}, 215 * ms, 9, false, 2, 215 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := timedBackend(t, func(c *config.Backend) {
					c.Retry.AttemptTimeout, c.StreamTimeout = 100*ms, time.Second
				}, func(a *attempt, ctx context.Context, n int) error {
					a.peer.Addr, a.reached = &net.TCPAddr{}, true
					a.lease = Lease{&entry{}}
					if n > tt.hangs {
						return nil
					}
					<-ctx.Done()
					if tt.backend {
						return &StatusError{Status: status.New(codes.DeadlineExceeded, "")}
					}
					return a.fail(ctx, status.FromContextError(ctx.Err()).Err())
				})
				r := tt.request
				if !r.ServerStreams {
					r.Timeout = tt.limit
				}
				err := b.call(t.Context(), r)
				late, _ := errors.AsType[*TimeoutError](err)
				if len(b.begun) != tt.attempts || (err == nil) != (tt.late == 0) || tt.late > 0 && (late == nil || late.Limit != tt.late || late.CallerDeadline) {
					t.Errorf("%T %v after attempts at %v; want %d, and a limit of %v", err, err, b.begun, tt.attempts, tt.late)
				}
			})
		})
	}
}

// A caller who goes away between two attempts is not kept waiting.
func TestCallerGoesDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := timedBackend(t, func(c *config.Backend) { c.Retry.MaxAttempts = 2 },
			func(a *attempt, _ context.Context, _ int) error {
				return unavailable(a, pushbackKey, "10000", "t", "1")
			})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := b.call(ctx, Request{Idempotent: true}); !errors.Is(err, context.Canceled) || len(b.begun) != 1 || time.Since(b.start) != time.Second {
			t.Errorf("%T %v after %v and %d attempts", err, err, time.Since(b.start), len(b.begun))
		}
	})
}

// What the gateway says by itself, or the caller causes, is no reason to try
// again.
func TestNoRetryOfOurOwn(t *testing.T) {
	for name, end := range map[string]error{
		"pool full":      &LocalError{Status: status.New(codes.ResourceExhausted, ""), Cause: ErrPoolFull},
		"revoked":        &LocalError{Status: status.New(codes.Unauthenticated, ""), Cause: ErrRevoked},
		"drained":        &LocalError{Status: status.New(codes.Unavailable, ""), Cause: ErrDrained},
		"shut down":      &LocalError{Status: status.New(codes.Unavailable, ""), Cause: ErrClosed},
		"grpc-go's own":  &LocalError{Status: status.New(codes.Internal, "")},
		"the exchange's": &ExchangeError{Err: status.Error(codes.Unavailable, "")},
		"the caller's":   context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			b := timedBackend(t, func(c *config.Backend) { c.Retry.Codes = []string{"UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED"} },
				func(*attempt, context.Context, int) error { return end })
			if err := b.call(t.Context(), Request{Idempotent: true}); !errors.Is(err, end) || len(b.begun) != 1 {
				t.Errorf("%T %v after %d attempts", err, err, len(b.begun))
			}
		})
	}
}

package rpcproxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rpcgate/rpcgate/config"
)

func hedging(delay time.Duration) func(*config.Backend) {
	return func(c *config.Backend) {
		quick(c)
		c.Retry.Hedge = config.Hedge{Enabled: true, Delay: delay}
	}
}

// afterTheFirst is a delay after which the first attempt has reached its endpoint
// on a busy machine, too: else the second may go there, or come first.
const afterTheFirst = 150 * time.Millisecond

// pair is two endpoints of which the one that is asked first answers by first,
// the other one by second.
func pair(t *testing.T, change func(*config.Backend), first, second func(ctx context.Context) (string, error)) (*Backend, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	var warm atomic.Bool
	var mu sync.Mutex
	var who string
	seen := map[string]bool{}
	answer := func(addr string) grpc.StreamHandler {
		return answerWith(func(ctx context.Context) (string, error) {
			mu.Lock()
			if !warm.Load() {
				seen[addr] = true
				mu.Unlock()
				return "warm", nil
			}
			asked.Add(1)
			if who == "" {
				who = addr
			}
			isFirst := who == addr
			mu.Unlock()
			if isFirst {
				return first(ctx)
			}
			return second(ctx)
		})
	}
	a, b := serve(t, answer("a")), serve(t, answer("b"))
	backend := newBackend(t, a.addr, func(c *config.Backend) {
		c.Endpoints = []string{a.addr, b.addr}
		change(c)
	}, Options{})
	waitFor(t, "both endpoints", func() bool {
		if _, err := unary(testContext(t), backend, Credential{}, "x"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 2
	})
	warm.Store(true)
	return backend, &asked
}

func TestHedge(t *testing.T) {
	cancelled := make(chan struct{}, 10)
	hang := func(ctx context.Context) (string, error) {
		<-ctx.Done()
		cancelled <- struct{}{}
		return "", status.FromContextError(ctx.Err()).Err()
	}
	say := func(text string, code codes.Code) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			if code != codes.OK {
				return "", status.Error(code, text)
			}
			return text, nil
		}
	}
	for name, tt := range map[string]struct {
		first, second func(context.Context) (string, error)
		want          string
		code          codes.Code
		attempts      int32
		won           float64
	}{
		"the second answers":                {hang, say("second", codes.OK), "second", codes.OK, 2, 1},
		"the second says no":                {hang, say("", codes.NotFound), "", codes.NotFound, 2, 1},
		"the second says not yet":           {hang, say("", codes.ResourceExhausted), "", codes.ResourceExhausted, 2, 1},
		"the first is fast":                 {say("first", codes.OK), say("second", codes.OK), "first", codes.OK, 1, 0},
		"the first fails fast, then itself": {say("", codes.Internal), say("second", codes.OK), "", codes.Internal, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			delay := afterTheFirst
			if tt.attempts == 1 {
				delay = patience / 2 // a busy machine must not make what is fast slow
			}
			b, asked := pair(t, func(c *config.Backend) {
				hedging(delay)(c)
				c.Retry.Codes = []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"}
			}, tt.first, tt.second)
			served := &Served{}
			ex := &exchange{requests: []string{"x"}}
			r := &Request{Method: testMethod, NoSideEffects: true, Served: served}
			err := b.Forward(testContext(t), r, ex)
			if status.Code(err) != tt.code {
				t.Fatalf("Forward: %T %v, want %v", err, err, tt.code)
			}
			if tt.code == codes.OK && (len(ex.messages) != 1 || ex.messages[0] != tt.want || ex.headers != 1) {
				t.Errorf("%d headers, messages %q, want %q once", ex.headers, ex.messages, tt.want)
			}
			if asked.Load() != tt.attempts || served.Attempts != int(tt.attempts) {
				t.Errorf("%d attempts, told of %d, want %d", asked.Load(), served.Attempts, tt.attempts)
			}
			if won := testutil.ToFloat64(mustMethod(t, b).won); won != tt.won {
				t.Errorf("%v hedges won, want %v", won, tt.won)
			}
			if tt.won > 0 {
				select {
				case <-cancelled:
				case <-time.After(patience):
					t.Error("the first one was not cancelled")
				}
			}
		})
	}
}

// A failure that could be tried again does not end the call while the other
// attempt goes on, whichever it is; and the other may be the one that is
// cancelled.
func TestHedgeOutlivesAFailure(t *testing.T) {
	for name, firstFails := range map[string]bool{"the first fails": true, "the second fails": false} {
		t.Run(name, func(t *testing.T) {
			var both sync.WaitGroup
			both.Add(2)
			failed := make(chan struct{})
			fail := func(context.Context) (string, error) {
				both.Done()
				both.Wait()
				defer close(failed)
				return "", status.Error(codes.Unavailable, "")
			}
			succeed := func(context.Context) (string, error) {
				both.Done()
				<-failed
				return "ok", nil
			}
			first, second := fail, succeed
			if !firstFails {
				first, second = succeed, fail
			}
			b, asked := pair(t, hedging(afterTheFirst), first, second)
			ex := &exchange{requests: []string{"x"}}
			err := b.Forward(testContext(t), &Request{Method: testMethod, NoSideEffects: true}, ex)
			if err != nil || asked.Load() != 2 {
				t.Errorf("Forward: %T %v after %d attempts", err, err, asked.Load())
			}
		})
	}
}

// What the backend said about trying again holds, whichever of two attempts that
// failed was told.
func TestHedgeObeysPushback(t *testing.T) {
	for name, firstIsTold := range map[string]bool{"the first is told": true, "the second is told": false} {
		t.Run(name, func(t *testing.T) {
			var both sync.WaitGroup
			both.Add(2)
			var arrived atomic.Int32
			fail := func(told bool) func(context.Context) (string, error) {
				return func(ctx context.Context) (string, error) {
					if arrived.Add(1) <= 2 {
						both.Done()
						both.Wait()
					}
					if told {
						_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, "-1"))
					}
					return "", status.Error(codes.Unavailable, "")
				}
			}
			b, asked := pair(t, hedging(afterTheFirst), fail(firstIsTold), fail(!firstIsTold))
			err := b.Forward(testContext(t), &Request{Method: testMethod, NoSideEffects: true}, &exchange{requests: []string{"x"}})
			if status.Code(err) != codes.Unavailable || asked.Load() != 2 {
				t.Errorf("Forward: %T %v after %d attempts", err, err, asked.Load())
			}
		})
	}
}

func TestHedgeIsNotFor(t *testing.T) {
	hang := func(ctx context.Context) (string, error) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		return "ok", nil
	}
	for name, tt := range map[string]struct {
		change func(*config.Backend)
		r      Request
		one    bool // to a certain endpoint
	}{
		"calls with side effects": {r: Request{Method: testMethod, Idempotent: true}},
		"streams":                 {r: Request{Method: testMethod, NoSideEffects: true, ServerStreams: true}},
		"one attempt":             {r: Request{Method: testMethod, NoSideEffects: true, MaxAttempts: 1}},
		"one endpoint":            {r: Request{Method: testMethod, NoSideEffects: true}, one: true},
		"no time":                 {change: func(c *config.Backend) { c.Retry.Hedge.Delay = time.Hour }, r: Request{Method: testMethod, NoSideEffects: true}},
		"no budget":               {change: func(c *config.Backend) { c.Retry.Budget = config.RetryBudget{} }, r: Request{Method: testMethod, NoSideEffects: true}},
		"nothing known":           {change: func(c *config.Backend) { c.Retry.Hedge.Delay = 0 }, r: Request{Method: testMethod, NoSideEffects: true}},
		"switched off":            {change: func(c *config.Backend) { c.Retry.Hedge.Enabled = false }, r: Request{Method: testMethod, NoSideEffects: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b, asked := pair(t, func(c *config.Backend) {
				hedging(time.Millisecond)(c)
				if tt.change != nil {
					tt.change(c)
				}
			}, hang, hang)
			if tt.one {
				tt.r.Endpoint = b.fleet.Endpoints()[0].Address()
			}
			if err := b.Forward(testContext(t), &tt.r, &exchange{requests: []string{"x"}}); err != nil || asked.Load() != 1 {
				t.Errorf("Forward: %v after %d attempts", err, asked.Load())
			}
		})
	}
}

// The delay is what the method's slow calls take.
func TestHedgeDelayFollowsLatency(t *testing.T) {
	b := newBackend(t, "127.0.0.1:1", hedging(0), Options{})
	c := newCall(t.Context(), b, mustMethod(t, b), &Request{Method: testMethod, NoSideEffects: true}, nil)
	c.maxAttempts = 2
	for i := range 1000 {
		c.method.slow.observe(time.Duration(i%100+1) * time.Millisecond)
	}
	if d, ok := b.retrier.hedgeDelay(t.Context(), c); !ok || d < 80*time.Millisecond || d > 115*time.Millisecond {
		t.Errorf("delay %v, %v; want about 95ms", d, ok)
	}
}

// However both attempts end, the caller gets one answer, and nothing is left
// behind.
func TestHedgeAnswersOnce(t *testing.T) {
	jitter := func(context.Context) (string, error) {
		<-time.After(time.Duration(time.Now().UnixNano() % 2_000_000))
		if time.Now().UnixNano()%5 == 0 {
			return "", status.Error(codes.Unavailable, "")
		}
		return "ok", nil
	}
	b, _ := pair(t, func(c *config.Backend) {
		hedging(time.Millisecond)(c)
		c.Retry.Budget.MinPerSecond = 1000
		c.Ejection.ConsecutiveFailures = 0
	}, jitter, jitter)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				ex := &exchange{requests: []string{fmt.Sprint(g, i)}}
				err := b.Forward(testContext(t), &Request{Method: testMethod, NoSideEffects: true}, ex)
				if err == nil && (len(ex.messages) != 1 || ex.headers != 1) || err != nil && len(ex.messages) != 0 {
					t.Errorf("%v with %d headers and %d messages", err, ex.headers, len(ex.messages))
				}
			}
		})
	}
	wg.Wait()
}

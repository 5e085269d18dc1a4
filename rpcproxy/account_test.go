package rpcproxy

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// Whatever becomes of calls (answers, failures, limits, hedges, callers that go
// away or break, ejections), all of them are over afterwards: none is counted at
// an endpoint or in the bulkhead.
func TestEveryCallIsAccountedFor(t *testing.T) {
	random := func(_ any, ss grpc.ServerStream) error {
		got, err := receive(ss, 1)
		if err != nil || len(got) == 0 {
			return err
		}
		switch rand.IntN(8) {
		case 0:
			return status.Error(codes.Unavailable, "")
		case 1:
			_ = ss.SendHeader(metadata.Pairs("h", "1"))
			return status.Error(codes.Unavailable, "")
		case 2:
			return status.Error(codes.ResourceExhausted, "")
		case 3: // slower than callers wait, or than attempts may be
			select {
			case <-ss.Context().Done():
				return status.FromContextError(ss.Context().Err()).Err()
			case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond):
			}
		}
		return ss.SendMsg(&Frame{Data: message("ok")})
	}
	one, two, three := serve(t, random), serve(t, random), serve(t, random)
	b := newBackend(t, "", func(c *config.Backend) {
		c.Endpoints = []string{one.addr, two.addr, three.addr}
		c.Retry.Backoff, c.Retry.MaxBackoff = time.Millisecond, 5*time.Millisecond
		c.Retry.AttemptTimeout = 30 * time.Millisecond
		c.Retry.Hedge = config.Hedge{Enabled: true, Delay: 5 * time.Millisecond}
		c.Retry.Budget.MinPerSecond = 1000
		c.Ejection.BaseTime, c.Ejection.Interval = 5*time.Millisecond, 20*time.Millisecond
		c.Breaker.Kind = "threshold"
		c.Breaker.Threshold.OpenTimeout = 5 * time.Millisecond
	}, Options{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				r := roads()[rand.IntN(4)]
				r.Idempotent, r.NoSideEffects, r.Served = rand.IntN(2) == 0, rand.IntN(2) == 0, &Served{}
				r.Credential = app([]string{"a", "b", "c"}[rand.IntN(3)])
				ctx, cancel := context.WithTimeout(testContext(t), time.Duration(1+rand.IntN(100))*time.Millisecond)
				ex := &exchange{requests: []string{"x"}}
				switch rand.IntN(8) {
				case 0:
					ex.recv = func() (mem.BufferSlice, error) { return nil, errExchange }
				case 1:
					ex.onMsg = func(string) error { return errExchange }
				case 2:
					time.AfterFunc(time.Duration(rand.IntN(10))*time.Millisecond, cancel)
				case 3:
					ex.onMsg = func(string) error { panic("transcoding") }
				}
				func() {
					defer func() { _ = recover() }()
					_ = b.Forward(ctx, &r, ex)
				}()
				cancel()
			}
		})
	}
	wg.Wait()
	for _, e := range b.fleet.Endpoints() {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%s has %d calls in flight", e.Address(), n)
		}
	}
	if n := b.Concurrency().InFlight; n != 0 {
		t.Errorf("%d places are not given back", n)
	}
}

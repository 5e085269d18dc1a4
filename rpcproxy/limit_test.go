package rpcproxy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
)

// A call beyond the limit is refused at once, with nothing of it read; a place is
// free again after each end of a call, a panic among them.
func TestBusyBackend(t *testing.T) {
	begun, over := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, answerWith(func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		select {
		case <-over:
		case <-ctx.Done():
		}
		return "done", nil
	}))
	reg := prometheus.NewRegistry()
	b := newBackend(t, s.addr, func(c *config.Backend) { c.Concurrency.MaxCalls = 2 }, Options{Registerer: reg})
	calls := make(chan error, 2)
	cancelled, cancel := context.WithCancel(testContext(t))
	for _, ctx := range []context.Context{testContext(t), cancelled} {
		go func() {
			_, err := unary(ctx, b, Credential{}, "x")
			calls <- err
		}()
	}
	<-begun
	<-begun
	refused := func(r *Request) {
		t.Helper()
		ex := &exchange{recv: func() (mem.BufferSlice, error) {
			t.Error("the message of a call that is refused was read")
			return nil, errors.New("no message")
		}}
		busy, ok := errors.AsType[*BusyError](b.Forward(testContext(t), r, ex))
		if !ok || busy.Backend != "test" || busy.Limit != 2 {
			t.Errorf("got %v", busy)
		}
	}
	refused(&Request{Method: testMethod})
	refused(&Request{Method: testMethod, ServerStreams: true})
	refused(&Request{Method: testMethod, ClientStreams: true})
	if v := b.Concurrency(); v.InFlight != 2 || v.Limit != 2 {
		t.Errorf("view: %+v", v)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP rpcgate_backend_busy_total Calls that were refused as there were as many to the backend as there may be.
# TYPE rpcgate_backend_busy_total counter
rpcgate_backend_busy_total{backend="test"} 3
# HELP rpcgate_backend_calls_in_flight Calls to a backend that have begun and not ended; its limit counts them.
# TYPE rpcgate_backend_calls_in_flight gauge
rpcgate_backend_calls_in_flight{backend="test"} 2
# HELP rpcgate_backend_calls_limit How many calls to a backend there may be at once; absent where there is no limit.
# TYPE rpcgate_backend_calls_limit gauge
rpcgate_backend_calls_limit{backend="test"} 2
`), "rpcgate_backend_busy_total", "rpcgate_backend_calls_in_flight", "rpcgate_backend_calls_limit"); err != nil {
		t.Error(err)
	}

	cancel()
	if err := <-calls; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		ex := &exchange{recv: func() (mem.BufferSlice, error) { panic("the caller's side broke") }}
		_ = b.Forward(testContext(t), &Request{Method: testMethod}, ex)
	}()
	close(over)
	if err := <-calls; err != nil {
		t.Errorf("the other call: %v", err)
	}
	if v := b.Concurrency(); v.InFlight != 0 {
		t.Errorf("%d places were not given back", v.InFlight)
	}
	if _, err := unary(testContext(t), b, Credential{}, "x"); err != nil {
		t.Error(err)
	}
}

// A stream holds its place until it is over.
func TestStreamHoldsItsPlace(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, func(c *config.Backend) { c.Concurrency.MaxCalls = 1 }, Options{})
	next, answers, ended := make(chan string), make(chan string), make(chan error, 1)
	ex := &exchange{
		recv: func() (mem.BufferSlice, error) {
			text, ok := <-next
			if !ok {
				return nil, errors.New("the caller hung up")
			}
			return message(text), nil
		},
		onMsg: func(text string) error { answers <- text; return nil },
	}
	go func() {
		ended <- b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true}, ex)
	}()
	for range 3 {
		next <- "x"
		<-answers
		if _, err := unary(testContext(t), b, Credential{}, "y"); !is[*BusyError](err) {
			t.Errorf("beside the stream: %v", err)
		}
	}
	close(next)
	<-ended
	if v := b.Concurrency(); v.InFlight != 0 {
		t.Errorf("%d places were not given back", v.InFlight)
	}
}

// An adaptive limit hears of answers and of the gateway's own limits that ran
// out, and not of streams, of calls that did not get there, or whose callers had
// no time.
func TestWhatAdaptiveLimitHears(t *testing.T) {
	s := serve(t, answerWith(func(context.Context) (string, error) { return "done", nil }))
	b := newBackend(t, s.addr, func(c *config.Backend) { c.Concurrency.Adaptive = true }, Options{})
	if _, err := unary(testContext(t), b, Credential{}, "x"); err != nil {
		t.Fatal(err)
	}
	m, err := b.methods.get(testMethod)
	if err != nil {
		t.Fatal(err)
	}
	if m.kind == nil {
		t.Fatal("latencies are not heard of")
	}
	if v := b.Concurrency(); !v.Adaptive || v.Limit != 100 || v.InFlight != 0 {
		t.Errorf("view: %+v", v)
	}
}

package rpcproxy

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// What served the call is known before the caller is given anything.
func TestServed(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, nil, Options{})
	for _, r := range roads() {
		t.Run(road(r), func(t *testing.T) {
			served := &Served{}
			r.Served = served
			told := false
			ex := &exchange{requests: []string{"x"}, onHeader: func(metadata.MD) error {
				told = *served == Served{Attempts: 1, Endpoint: s.addr}
				return nil
			}}
			if err := b.Forward(testContext(t), &r, ex); err != nil || !told {
				t.Errorf("Forward: %v; told %+v", err, served)
			}
		})
	}
}

// A status without a header, and an endpoint that nothing chose.
func TestServedOfFailures(t *testing.T) {
	s := serve(t, func(any, grpc.ServerStream) error { return status.Error(codes.NotFound, "") })
	b := newBackend(t, s.addr, nil, Options{})
	for _, r := range roads() {
		for _, direct := range []bool{false, true} {
			served := &Served{}
			r.Served = served
			if direct {
				r.Endpoint = s.addr
			}
			err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
			if status.Code(err) != codes.NotFound || *served != (Served{Attempts: 1, Endpoint: s.addr}) {
				t.Errorf("%s, direct %v: %v, %+v", road(r), direct, err, served)
			}
		}
	}
}

// A response may say of itself that it is a failure; the breaker counts it
// where it is asked to.
func TestJudge(t *testing.T) {
	s := serve(t, echo)
	for name, counts := range map[string]bool{"counts": true, "only told": false} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, s.addr, thresholdBreaker, Options{})
			call := func(text string) Served {
				served := Served{}
				r := &Request{Method: testMethod, Served: &served, JudgeCounts: counts,
					Judge: func(data mem.BufferSlice) bool { return string(data.Materialize()) == "good" }}
				ex := &exchange{requests: []string{text}}
				if err := b.Forward(testContext(t), r, ex); err != nil || len(ex.messages) != 1 || ex.messages[0] != text {
					t.Fatalf("Forward: %v, %q", err, ex.messages)
				}
				return served
			}
			if call("good").Failed {
				t.Error("a good one is told to have failed")
			}
			for range 5 {
				if !call("bad").Failed {
					t.Error("a bad one is not told to have failed")
				}
			}
			if open := mustMethod(t, b).breaker.State() != breaker.Closed; open != counts {
				t.Errorf("after five failures the breaker is open: %v, want %v", open, counts)
			}
		})
	}
}

// Where a stream went is told while it goes on, and when its caller breaks it
// off, also where the fleet has not chosen the endpoint: grpc-go's own notes are
// written when the stream ends, by a goroutine of its own.
func TestServedOfStreamsThatBreakOff(t *testing.T) {
	s := serve(t, func(srv any, ss grpc.ServerStream) error {
		if err := echo(srv, ss); err != nil {
			return err
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	})
	b := newBackend(t, s.addr, func(c *config.Backend) { c.Balancer.Policy = "pick_first" }, Options{})
	for range 50 {
		ctx, cancel := context.WithCancel(testContext(t))
		r := &Request{Method: testMethod, ClientStreams: true, ServerStreams: true, Served: &Served{}}
		gone := errors.New("gone")
		ex := &exchange{requests: []string{"x"}, onMsg: func(string) error { cancel(); return gone }}
		if err := b.Forward(ctx, r, ex); err == nil {
			t.Fatal("Forward: no error")
		}
		if *r.Served != (Served{Attempts: 1, Endpoint: s.addr}) {
			t.Fatalf("told %+v", *r.Served)
		}
		cancel()
	}
}

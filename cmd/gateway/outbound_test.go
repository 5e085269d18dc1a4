package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// outboundOf is the way out to one backend, which does not run.
func outboundOf(t *testing.T, reg prometheus.Registerer) (*outbound, *config.Config) {
	t.Helper()
	cfg := config.Defaults()
	shop := config.DefaultBackend("shop")
	shop.Endpoints = []string{"127.0.0.1:1"}
	cfg.Backends = []config.Backend{shop}
	o, err := newOutbound(cfg, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.end)
	return o, cfg
}

// lateCaller is a caller whose message comes when it is let go.
type lateCaller struct{ asked, goOn chan struct{} }

func (c lateCaller) RecvMsg() (mem.BufferSlice, error) {
	close(c.asked)
	<-c.goOn
	return mem.BufferSlice{mem.SliceBuffer("x")}, nil
}

func (lateCaller) SendHeader(metadata.MD) error { return nil }

func (lateCaller) SendMsg(mem.BufferSlice) error { return nil }

func (lateCaller) SetTrailer(metadata.MD) {}

// call begins a call and returns once its message is asked for, what lets it go
// on, and what its outcome comes by.
func call(ctx context.Context, b *rpcproxy.Backend) (goOn func(), outcome <-chan error) {
	ex := lateCaller{make(chan struct{}), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- b.Forward(ctx, &rpcproxy.Request{
			Method: "/shop.S/Get", Credential: rpcproxy.Credential{App: "acme", TokenID: "t", Token: "s"}, MaxAttempts: 1,
		}, ex)
	}()
	<-ex.asked
	return func() { close(ex.goOn) }, done
}

// A backend that is taken out stays as long as a call in flight may need it.
func TestRetiredBackendServesItsCalls(t *testing.T) {
	t.Parallel()
	o, cfg := outboundOf(t, nil)
	goOn, outcome := call(t.Context(), o.inForce["shop"])
	o.replace(cfg, nil, 0, time.Minute)
	gone := make(chan struct{})
	go func() {
		o.ending.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		t.Error("it is gone before its call")
	case <-time.After(3 * lookInterval):
	}
	goOn()
	if err := <-outcome; !errors.As(err, new(*rpcproxy.UnreachableError)) {
		t.Errorf("the call ended with %v, and did not try to connect", err)
	}
	<-gone
}

// Calls may come to a backend as soon as the gateway has it, which is before the
// reload is over here; a revocation that comes between must not miss it.
func TestRevocationDuringAReload(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	o, cfg := outboundOf(t, reg)
	next := *cfg
	next.Backends = []config.Backend{cfg.Backends[0]}
	next.Backends[0].Endpoints = []string{"127.0.0.1:2"}
	backends, err := o.build(&next)
	if err != nil {
		t.Fatal(err)
	}
	goOn, outcome := call(t.Context(), backends["shop"])
	goOn()
	<-outcome // its connection stays
	o.revoke(auth.Revocation{App: "acme", TokenID: "t"})
	o.replace(&next, backends, 0, time.Minute)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "rpcgate_pool_retired_total" && l.GetValue() == "revoked" && m.GetCounter().GetValue() == 1 {
					return
				}
			}
		}
	}
	t.Error("the connection was not revoked")
}

package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// callAt calls one endpoint.
func callAt(t *testing.T, b *Backend, c Credential, endpoint string) (string, error) {
	t.Helper()
	ex := &exchange{requests: []string{"x"}}
	err := b.Forward(testContext(t), &Request{Method: testMethod, Credential: c, Endpoint: endpoint}, ex)
	if err != nil {
		return "", err
	}
	return ex.messages[0], nil
}

func TestEndpointByEndpoint(t *testing.T) {
	servers := make([]*server, 3)
	var list []string
	for i := range servers {
		servers[i] = serve(t, answerWith(func(context.Context) (string, error) { return fmt.Sprint(i), nil }))
		list = append(list, servers[i].addr)
	}
	b := newBackend(t, "", func(c *config.Backend) {
		c.Endpoints = list
		c.Balancer.Subset = config.Subset{Size: 1, ID: "x"}
	}, Options{})
	got, err := b.Addresses(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(list))
	if !slices.Equal(got, want) {
		t.Fatalf("addresses %v, want %v", got, want)
	}
	for i, address := range list {
		for range 2 {
			if answer, err := callAt(t, b, app("a"), address); err != nil || answer != fmt.Sprint(i) {
				t.Errorf("endpoint %d: %q, %v", i, answer, err)
			}
		}
	}
	// One connection each, which the other calls do not use.
	for i, s := range servers {
		if s.conns() != 1 {
			t.Errorf("endpoint %d has %d connections", i, s.conns())
		}
	}
	if live, _ := b.pool.size(); live != 0 {
		t.Errorf("%d connections to all endpoints", live)
	}
	// Nobody else's call goes over them.
	if _, err := callAt(t, b, app("b"), list[0]); err != nil || servers[0].conns() != 2 {
		t.Errorf("another app's call: %v, %d connections", err, servers[0].conns())
	}
	b.Revoke("a", "")
	if _, err := callAt(t, b, app("a"), list[0]); err != nil || servers[0].conns() != 3 {
		t.Errorf("after the revocation: %v, %d connections", err, servers[0].conns())
	}
}

// What one endpoint does says nothing about the method, nor about the backend.
func TestEndpointOutOfManyFails(t *testing.T) {
	sick := serve(t, answerWith(func(context.Context) (string, error) { return "", status.Error(codes.Internal, "sick") }))
	well := serve(t, answerWith(func(context.Context) (string, error) { return "well", nil }))
	gone := serve(t, echo)
	gone.stop()
	b := newBackend(t, "", func(c *config.Backend) {
		c.Endpoints = []string{sick.addr, well.addr, gone.addr}
		c.Breaker.Kind, c.Breaker.Threshold.ConsecutiveFailures = "threshold", 1
		c.Retry.MaxAttempts = 1
	}, Options{})
	for range 5 {
		if _, err := callAt(t, b, app("a"), sick.addr); !is[*StatusError](err) {
			t.Fatalf("sick: %v", err)
		}
		if _, err := callAt(t, b, app("a"), gone.addr); !is[*UnreachableError](err) {
			t.Fatalf("gone: %v", err)
		}
		if answer, err := callAt(t, b, app("a"), well.addr); answer != "well" {
			t.Fatalf("well: %v", err)
		}
	}
	if b.lost.Load() {
		t.Error("the backend counts as lost")
	}
}

func TestAddresses(t *testing.T) {
	r := manual.NewBuilderWithScheme("book")
	b := newBackend(t, "", func(c *config.Backend) { c.Endpoints, c.Target = nil, "book:///x" }, Options{Resolvers: []resolver.Builder{r}})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if list, err := b.Addresses(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("before discovery has said anything: %v, %v", list, err)
	}
	addresses := func(list ...string) (s resolver.State) {
		for _, a := range list {
			s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
		}
		return s
	}
	for _, list := range [][]string{{"h:2", "h:1", "h:2"}, {"h:3"}, {}} {
		r.UpdateState(addresses(list...))
		want := slices.Compact(slices.Sorted(slices.Values(list)))
		if got, err := b.Addresses(testContext(t)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	r.UpdateState(addresses("h:4"))
	r.CC().ReportError(errors.New("lost"))
	if got, err := b.Addresses(testContext(t)); err != nil || !slices.Equal(got, []string{"h:4"}) {
		t.Errorf("after an error: %v, %v", got, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Addresses(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Connections to one endpoint are not kept for long.
func TestDirectConnsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.DefaultBackend("b")
		cfg.Endpoints = []string{"h:1"}
		unanswered := func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b, err := New(cfg, Options{dialOptions: []grpc.DialOption{grpc.WithContextDialer(unanswered)}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Close() }()
		l, err := b.acquire(t.Context(), &Request{Endpoint: "h:1"})
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		time.Sleep(directIdle + directIdle/5)
		synctest.Wait()
		if live, _ := b.direct.pool.size(); live != 0 {
			t.Errorf("%d connections are left", live)
		}
	})
}

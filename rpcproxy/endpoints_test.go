package rpcproxy

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// All connections of a backend share what is known of its endpoints.
func TestConnectionsShareTheFleet(t *testing.T) {
	one, other := serve(t, echo), serve(t, echo)
	b := newBackend(t, "", func(c *config.Backend) { c.Endpoints = []string{one.addr, other.addr} }, Options{})
	ctx := testContext(t)
	for token := range 3 {
		c := Credential{App: "a", TokenID: fmt.Sprint(token), Token: "x"}
		if _, err := unary(ctx, b, c, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	endpoints := b.fleet.Endpoints()
	if len(endpoints) != 2 {
		t.Fatalf("%d endpoints", len(endpoints))
	}
	for _, e := range endpoints {
		waitFor(t, "three connections to "+e.Address(), func() bool { return e.Connections() == 3 })
		if n := e.InFlight(); n != 0 {
			t.Errorf("%d calls in flight to %s", n, e.Address())
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints {
		if n := e.Connections(); n != 0 {
			t.Errorf("%d connections to %s are left", n, e.Address())
		}
	}
}

// Whatever its target's scheme, a backend's fleet knows its endpoints; and the
// host that calls name is what it is without a fleet.
func TestTargetsOfAnyScheme(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	authorities := make(chan string, 1)
	handler := func(srv any, s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		authorities <- strings.Join(md[":authority"], " ")
		return echo(srv, s)
	}
	server := serve(t, handler)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.grpc.Serve(l) }()
	t.Cleanup(func() { server.stop(); <-served })

	m := manual.NewBuilderWithScheme("manual")
	m.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: server.addr}}})
	for target, authority := range map[string]string{
		"passthrough:///" + server.addr: server.addr,
		"dns:///" + server.addr:         server.addr,
		server.addr:                     server.addr,
		"unix://" + socket:              "localhost",
		"manual:///shop":                "shop",
	} {
		b := newBackend(t, "", nil, Options{Target: target, Resolvers: []resolver.Builder{m}})
		if _, err := unary(testContext(t), b, Credential{}, "hello"); err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if got := <-authorities; got != authority {
			t.Errorf("%s: :authority %q, want %q", target, got, authority)
		}
		if n := len(b.fleet.Endpoints()); n != 1 {
			t.Errorf("%s: %d endpoints are known", target, n)
		}
	}
}

func TestUsedEndpoints(t *testing.T) {
	address := func(a string) resolver.Address { return resolver.Address{Addr: a} }
	endpoint := func(addresses ...string) (e resolver.Endpoint) {
		for _, a := range addresses {
			e.Addresses = append(e.Addresses, address(a))
		}
		return e
	}
	for name, tt := range map[string]struct {
		state resolver.State
		want  []string // the endpoints' addresses
	}{
		"endpoints":        {resolver.State{Endpoints: []resolver.Endpoint{endpoint("b:1"), endpoint("a:1")}}, []string{"[b:1]", "[a:1]"}},
		"addresses alone":  {resolver.State{Addresses: []resolver.Address{address("b:1"), address("a:1")}}, []string{"[b:1]", "[a:1]"}},
		"several of one":   {resolver.State{Endpoints: []resolver.Endpoint{endpoint("a:1", "a:2"), endpoint("b:1")}}, []string{"[a:1 a:2]", "[b:1]"}},
		"one twice":        {resolver.State{Endpoints: []resolver.Endpoint{endpoint("a:1"), endpoint("b:1"), endpoint("a:1", "c:1")}}, []string{"[a:1]", "[b:1]"}},
		"without address":  {resolver.State{Endpoints: []resolver.Endpoint{{}, endpoint("a:1")}}, []string{"[a:1]"}},
		"none":             {resolver.State{}, nil},
		"none but a first": {resolver.State{Endpoints: []resolver.Endpoint{}, Addresses: []resolver.Address{address("a:1")}}, nil},
	} {
		f, err := fleet.New(config.DefaultBackend("test"), fleet.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := used(f, tt.state)
		var got []string
		for _, e := range s.Endpoints {
			var addresses []string
			for _, a := range e.Addresses {
				addresses = append(addresses, a.Addr)
			}
			got = append(got, fmt.Sprint(addresses))
		}
		if !slices.Equal(got, tt.want) || len(f.Endpoints()) != len(tt.want) {
			t.Errorf("%s: %v, want %v; the fleet has %d", name, got, tt.want, len(f.Endpoints()))
		}
	}
}

// hash_header's value keeps its endpoint; a call without it goes by its app.
func TestHashHeader(t *testing.T) {
	server := serve(t, echo)
	b := newBackend(t, server.addr, func(c *config.Backend) {
		c.Balancer.Policy, c.Balancer.HashHeader = "ring_hash", "user"
	}, Options{})
	for name, tt := range map[string]struct {
		request Request
		want    string
	}{
		"header":        {Request{Metadata: metadata.Pairs("user", "u", "user", "v"), Credential: Credential{App: "a"}}, "u"},
		"no header":     {Request{Metadata: metadata.Pairs("other", "u"), Credential: Credential{App: "a"}}, "a"},
		"given by hand": {Request{HashKey: "k", Metadata: metadata.Pairs("user", "u")}, "k"},
	} {
		c := newCall(t.Context(), b, nil, &tt.request, nil)
		c.findKey()
		choice := balancer.ChoiceOf(c.first.outgoing(t.Context()))
		if !choice.Keyed || choice.Key != fleet.HashKey(tt.want) {
			t.Errorf("%s: keyed %v, %x, want the hash of %q", name, choice.Keyed, choice.Key, tt.want)
		}
	}
}

// The exchange is others' code, which may panic in the middle of a stream.
func TestExchangeThatPanicsLeavesNothingCounted(t *testing.T) {
	b := newBackend(t, serve(t, echo).addr, nil, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		ex := &exchange{requests: []string{"x"}, onMsg: func(string) error { panic("transcoding") }}
		_ = b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true}, ex)
	}()
	for _, e := range b.fleet.Endpoints() {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%s has %d calls in flight", e.Address(), n)
		}
	}
	if n := b.Concurrency().InFlight; n != 0 {
		t.Errorf("%d places were not given back", n)
	}
}

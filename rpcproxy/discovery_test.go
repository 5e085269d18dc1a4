package rpcproxy

import (
	"sync"
	"testing"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

// countedBuilder resolves every target of scheme "counted" to one address, and
// counts how many resolvers there are, and were.
type countedBuilder struct {
	addr string

	mu         sync.Mutex
	open, ever int
}

func (*countedBuilder) Scheme() string { return "counted" }

func (b *countedBuilder) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.ever++
	_ = cc.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: b.addr}}}}})
	return countedResolver{b}, nil
}

func (b *countedBuilder) counts() (open, ever int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.ever
}

type countedResolver struct{ builder *countedBuilder }

func (countedResolver) ResolveNow(resolver.ResolveNowOptions) {}

func (r countedResolver) Close() {
	r.builder.mu.Lock()
	defer r.builder.mu.Unlock()
	r.builder.open--
}

// However many connections there are, discovery is asked once; it goes on
// being asked when they are closed, and ends with the backend.
func TestConnectionsShareDiscovery(t *testing.T) {
	t.Parallel()
	b := &countedBuilder{addr: "127.0.0.1:1"}
	cfg := config.DefaultBackend("test")
	cfg.Target = "counted:///x"
	backend, err := New(cfg, Options{Resolvers: []resolver.Builder{b}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ever := b.counts(); ever != 0 {
		t.Errorf("%d resolvers before the first use", ever)
	}
	const conns = 100
	var leases []Lease
	for i := range conns {
		lease, err := backend.pool.Acquire(testContext(t), Credential{App: "a", TokenID: string(rune('A' + i))})
		if err != nil {
			t.Fatal(err)
		}
		lease.Conn().Connect()
		leases = append(leases, lease)
	}
	for i, lease := range leases {
		lease.Release()
		backend.Revoke("a", string(rune('A'+i)))
	}
	if open, ever := b.counts(); open != 1 || ever != 1 {
		t.Errorf("%d resolvers, %d ever, for %d connections that are closed", open, ever, conns)
	}
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	if open, _ := b.counts(); open != 0 {
		t.Errorf("%d resolvers after the end", open)
	}
}

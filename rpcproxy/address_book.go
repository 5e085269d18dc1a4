package rpcproxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/discovery"
)

// errNoAddresses is what became of a target that names no addresses, as xds's
// does not.
var errNoAddresses = errors.New("its endpoints cannot be listed")

// addressBook is all endpoints of a backend as discovery names them, be they
// among those that its connections use or not. It is told by the resolvers of
// the connections; from when it is first asked until it is closed it keeps one
// going itself.
type addressBook struct {
	starting sync.Mutex // guards the looking
	stop     func()     // nil: not looking yet
	closed   bool

	mu    sync.Mutex // guards what was seen
	known chan struct{}
	heard bool
	list  []resolver.Address // sorted; replaced, not changed
	err   error              // why there is no list
}

func newAddressBook() *addressBook { return &addressBook{known: make(chan struct{})} }

// all gives the addresses, sorted. It waits for discovery's first answer until
// ctx is done.
func (b *addressBook) all(ctx context.Context, target string, resolvers []resolver.Builder) ([]resolver.Address, error) {
	if err := b.look(target, resolvers); err != nil {
		return nil, err
	}
	select {
	case <-b.known:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list, b.err
}

// find gives what discovery says of an address; nothing but the address where it
// says nothing.
func (b *addressBook) find(address string) resolver.Address {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := slices.BinarySearchFunc(b.list, address, func(a resolver.Address, addr string) int { return strings.Compare(a.Addr, addr) })
	if !ok {
		return resolver.Address{Addr: address}
	}
	return b.list[i]
}

// look begins to look at discovery, unless it does already.
func (b *addressBook) look(target string, resolvers []resolver.Builder) error {
	b.starting.Lock()
	defer b.starting.Unlock()
	if b.closed {
		return ErrClosed
	}
	if b.stop != nil {
		return nil
	}
	stop, err := discovery.Follow(target, resolvers, b.told)
	if err != nil {
		return err
	}
	b.stop = stop
	return nil
}

// hear takes in the whole list.
func (b *addressBook) hear(s resolver.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.err = addressesOf(s), nil
	b.wakeLocked()
}

// told takes in what came of looking: that it fails, or that it is done, when
// hear was called before. Where that was not so, there are no addresses to be
// had of the target. A list that is there stays.
func (b *addressBook) told(_ resolver.State, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.list == nil {
		if b.err = err; err == nil {
			b.err = errNoAddresses
		}
	}
	b.wakeLocked()
}

func (b *addressBook) wakeLocked() {
	if !b.heard {
		b.heard = true
		close(b.known)
	}
}

// addressesOf lists the endpoints' addresses: of an endpoint that has several
// the first, each once, sorted.
func addressesOf(s resolver.State) []resolver.Address {
	endpoints := endpointsOf(s)
	list := make([]resolver.Address, len(endpoints))
	for i, e := range endpoints {
		list[i] = e.Addresses[0]
	}
	slices.SortFunc(list, func(a, b resolver.Address) int { return strings.Compare(a.Addr, b.Addr) })
	return list
}

// close ends the looking and waits for it.
func (b *addressBook) close() {
	b.starting.Lock()
	defer b.starting.Unlock()
	b.closed = true
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

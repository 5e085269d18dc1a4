package rpcproxy

import (
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/discovery"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// fleetResolvers are the resolvers of a backend's connections: whatever they
// resolve goes to its fleet and its address book, and the connections are told
// only of the endpoints that the fleet uses. All connections share one resolver,
// and the fleet hears of each change once.
//
// Targets of other schemes, which are xDS's, keep their own resolver and
// balancers: there a control plane decides.
func fleetResolvers(f *fleet.Fleet, book *addressBook, given []resolver.Builder) []resolver.Builder {
	builders := append([]resolver.Builder{discovery.StaticBuilder()}, given...)
	for _, scheme := range []string{"dns", "unix", "unix-abstract", "passthrough"} {
		if b := resolver.Get(scheme); b != nil {
			builders = append(builders, b) // where none is given
		}
	}
	wrapped := make([]resolver.Builder, len(builders))
	for i, b := range builders {
		wrapped[i] = discovery.Share(withFleet(f, book, b))
	}
	return wrapped
}

func withFleet(f *fleet.Fleet, book *addressBook, inner resolver.Builder) resolver.Builder {
	b := fleetBuilder{Builder: inner, fleet: f, book: book}
	if authority, ok := inner.(resolver.AuthorityOverrider); ok {
		return struct {
			resolver.Builder
			resolver.AuthorityOverrider
		}{b, authority}
	}
	return b
}

type fleetBuilder struct {
	resolver.Builder

	fleet *fleet.Fleet
	book  *addressBook
}

// Build implements resolver.Builder.
func (b fleetBuilder) Build(target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	return b.Builder.Build(target, fleetClientConn{cc, b.fleet, b.book}, o)
}

// fleetClientConn stands between a resolver and who it tells.
type fleetClientConn struct {
	resolver.ClientConn

	fleet *fleet.Fleet
	book  *addressBook
}

// UpdateState implements resolver.ClientConn.
func (cc fleetClientConn) UpdateState(s resolver.State) error {
	cc.book.hear(s)
	return cc.ClientConn.UpdateState(used(cc.fleet, s))
}

// endpointsOf lists a state's endpoints, in its order: those that have addresses,
// each first address once.
func endpointsOf(s resolver.State) []resolver.Endpoint {
	all := s.Endpoints
	if all == nil { // a resolver that only knows addresses
		for _, a := range s.Addresses {
			all = append(all, resolver.Endpoint{Addresses: []resolver.Address{a}})
		}
	}
	list := make([]resolver.Endpoint, 0, len(all))
	seen := make(map[string]bool, len(all))
	for _, e := range all {
		if len(e.Addresses) == 0 || seen[e.Addresses[0].Addr] {
			continue
		}
		seen[e.Addresses[0].Addr] = true
		list = append(list, e)
	}
	return list
}

// used gives the fleet a resolver's whole list, and returns the state with those
// endpoints alone that the fleet uses.
func used(f *fleet.Fleet, s resolver.State) resolver.State {
	endpoints := endpointsOf(s)
	list := make([]fleet.Info, len(endpoints))
	byAddress := make(map[string]resolver.Endpoint, len(endpoints))
	for i, e := range endpoints {
		address := e.Addresses[0].Addr
		byAddress[address] = e
		list[i] = fleet.Info{Address: address, Metadata: discovery.Labels(e)}
	}
	chosen := f.Update(list)
	s.Endpoints = make([]resolver.Endpoint, len(chosen))
	s.Addresses = nil
	for i, e := range chosen {
		s.Endpoints[i] = byAddress[e.Address()]
		s.Addresses = append(s.Addresses, s.Endpoints[i].Addresses...)
	}
	return balancer.WithFleet(s, f, chosen)
}

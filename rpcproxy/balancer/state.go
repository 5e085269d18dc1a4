package balancer

import (
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// fleetKey is what a resolver's state carries a *roster under.
type fleetKey struct{}

// roster says whose endpoints those of a resolver's state are: the first of the
// one's is the first of the other's. (Endpoints have attributes of their own, but
// grpc-go drops these where connections go through a proxy.)
type roster struct {
	fleet     *fleet.Fleet
	endpoints []*fleet.Endpoint
}

// WithFleet gives a resolver's state the fleet, and which of the fleet's
// endpoints its own are, in their order. The slice must not change.
func WithFleet(s resolver.State, f *fleet.Fleet, endpoints []*fleet.Endpoint) resolver.State {
	s.Attributes = s.Attributes.WithValue(fleetKey{}, &roster{f, endpoints})
	return s
}

// rosterOf is nil where a state carries none that fits it.
func rosterOf(s resolver.State) *roster {
	r, _ := s.Attributes.Value(fleetKey{}).(*roster)
	if r != nil && len(r.endpoints) != len(s.Endpoints) {
		return nil
	}
	return r
}

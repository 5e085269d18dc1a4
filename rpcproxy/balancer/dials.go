package balancer

import (
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// dialsKey is what a resolver's state carries a *turns under.
type dialsKey struct{}

// turns is who says when a connection may go to an endpoint, and whose it is.
type turns struct {
	dials *fleet.Dials
	app   string
}

// WithDials gives a resolver's state what says when connections to endpoints may
// be made, and the app that this ClientConn is for. A state without it has no
// such bound.
func WithDials(s resolver.State, d *fleet.Dials, app string) resolver.State {
	s.Attributes = s.Attributes.WithValue(dialsKey{}, &turns{d, app})
	return s
}

// turnsOf is nil where a state carries none.
func turnsOf(s resolver.State) *turns {
	t, _ := s.Attributes.Value(dialsKey{}).(*turns)
	return t
}

// connect connects to an address when that may be. What it returns is nil where
// there is no bound, and else to be ended when the connection is made, has failed
// or is wanted no more. SubConn.Connect leaves the work to a goroutine.
func (t *turns) connect(conn balancer.SubConn, address string, urgent bool) *fleet.Dial {
	if t == nil {
		conn.Connect()
		return nil
	}
	return t.dials.Begin(address, t.app, urgent, conn.Connect)
}

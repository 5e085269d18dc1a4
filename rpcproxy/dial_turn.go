package rpcproxy

import (
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// inTurn are the resolvers of a connection of an app's: those that all share,
// which tell its balancer besides whose turn it waits for.
func inTurn(shared []resolver.Builder, d *fleet.Dials, app string) []resolver.Builder {
	own := &turnOf{d, app}
	builders := make([]resolver.Builder, len(shared))
	for i, b := range shared {
		builders[i] = turnBuilder{b, own}
		if authority, ok := b.(resolver.AuthorityOverrider); ok {
			builders[i] = struct {
				turnBuilder
				resolver.AuthorityOverrider
			}{turnBuilder{b, own}, authority}
		}
	}
	return builders
}

type turnOf struct {
	dials *fleet.Dials
	app   string
}

type turnBuilder struct {
	resolver.Builder

	own *turnOf
}

// Build implements resolver.Builder.
func (b turnBuilder) Build(target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	return b.Builder.Build(target, turnClientConn{cc, b.own}, o)
}

type turnClientConn struct {
	resolver.ClientConn

	own *turnOf
}

// UpdateState implements resolver.ClientConn.
func (cc turnClientConn) UpdateState(s resolver.State) error {
	return cc.ClientConn.UpdateState(balancer.WithDials(s, cc.own.dials, cc.own.app))
}

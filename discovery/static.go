package discovery

import (
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
)

// StaticTarget returns the gRPC target for a fixed list of host:port, for a
// ClientConn that has [StaticBuilder] among its resolvers.
func StaticTarget(endpoints []string) string {
	u := url.URL{Scheme: staticScheme, Path: "/" + strings.Join(endpoints, ",")}
	return u.String()
}

// StaticBuilder resolves [StaticTarget]'s targets. Host names are left to the
// dialer, which asks for their addresses each time it connects. Each endpoint's
// certificate must name that endpoint's host, unless the ClientConn's
// credentials say otherwise.
func StaticBuilder() resolver.Builder { return staticBuilder{} }

type staticBuilder struct{}

func (staticBuilder) Scheme() string { return staticScheme }

// OverrideAuthority keeps a list with commas out of the :authority header.
func (staticBuilder) OverrideAuthority(target resolver.Target) string {
	first, _, _ := strings.Cut(target.Endpoint(), ",")
	return first
}

func (staticBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	seen := make(map[string]bool)
	for address := range strings.SplitSeq(target.Endpoint(), ",") {
		if err := checkAddress(address); err != nil {
			return nil, fmt.Errorf("static target: %w", err)
		}
		if seen[address] {
			continue
		}
		seen[address] = true
		a := resolver.Address{Addr: address, ServerName: address}
		state.Addresses = append(state.Addresses, a)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
	}
	// An error here is the balancer's, and resolving again would not change it.
	_ = cc.UpdateState(state)
	return staticResolver{}, nil
}

type staticResolver struct{}

func (staticResolver) ResolveNow(resolver.ResolveNowOptions) {}

func (staticResolver) Close() {}

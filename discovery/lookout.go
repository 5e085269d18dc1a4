package discovery

import (
	"fmt"
	"net/url"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// Follow resolves a target as a ClientConn with the builders does, without
// connecting to anything. tell gets each state, and each error with a zero
// state, one after the other; nil for who only wants a [Share] of the target
// kept going. stop ends it and waits.
func Follow(target string, builders []resolver.Builder, tell func(resolver.State, error)) (stop func(), err error) {
	parsed, builder, err := builderOf(target, builders)
	if err != nil {
		return nil, err
	}
	if tell == nil {
		tell = func(resolver.State, error) {}
	}
	r, err := builder.Build(parsed, &lookout{tell: tell}, resolver.BuildOptions{DisableServiceConfig: true})
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	return r.Close, nil
}

// builderOf finds what resolves a target as grpc.NewClient does: a scheme among
// the builders or in gRPC's registry, or else the whole target is a DNS name.
func builderOf(target string, builders []resolver.Builder) (resolver.Target, resolver.Builder, error) {
	for _, text := range []string{target, "dns:///" + target} {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		for _, b := range builders {
			if b.Scheme() == u.Scheme {
				return resolver.Target{URL: *u}, b, nil
			}
		}
		if b := resolver.Get(u.Scheme); b != nil {
			return resolver.Target{URL: *u}, b, nil
		}
	}
	return resolver.Target{}, nil, fmt.Errorf("target %q: there is no resolver for it", target)
}

// lookout is a ClientConn without connections.
type lookout struct {
	tell func(resolver.State, error)
}

func (l *lookout) UpdateState(state resolver.State) error {
	l.tell(state, nil)
	return nil
}

func (l *lookout) ReportError(err error) { l.tell(resolver.State{}, err) }

func (l *lookout) NewAddress(addresses []resolver.Address) {
	l.tell(resolver.State{Addresses: addresses}, nil)
}

func (l *lookout) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

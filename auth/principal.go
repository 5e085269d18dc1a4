package auth

import (
	"fmt"
	"net/netip"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

// NewPrincipal makes p ready for many calls: what it tells backends is put
// together once. The empty ScopeText becomes "*" where p may call everything.
func NewPrincipal(p Principal) *Principal {
	if p.ScopeText == "" && p.AppScopes == nil && p.TokenScopes == nil {
		p.ScopeText = "*"
	}
	p.facts = p.newFacts()
	return &p
}

// principalOf is what a token and its app come to. The error is for records
// that nobody can have written by way of the store.
func principalOf(s tenant.Stored) (*Principal, error) {
	p := Principal{
		App: s.Token.App, TokenID: s.Token.ID, Expires: s.Token.Expires,
		Priority: s.App.Priority, Weight: s.App.Weight,
		AppLimits: s.App.Limits, TokenLimits: s.Token.Limits,
		Networks: ownForms(s.Token.Networks),
	}
	var err error
	if p.AppScopes, err = scope.Compile(s.App.Scopes); err != nil {
		return nil, fmt.Errorf("the app's scopes: %w", err)
	}
	if p.TokenScopes, err = scope.Compile(s.Token.Scopes); err != nil {
		return nil, fmt.Errorf("the token's scopes: %w", err)
	}
	both, err := scope.Intersect(s.App.Scopes, s.Token.Scopes)
	if err != nil {
		return nil, err
	}
	p.ScopeText = scopeText(both)
	return NewPrincipal(p), nil
}

// ownForms gives networks of IPv4 that are written as IPv6 in their own form,
// since callers' addresses are.
func ownForms(networks []netip.Prefix) []netip.Prefix {
	if len(networks) == 0 {
		return nil
	}
	all := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		if n.Addr().Is4In6() && n.Bits() >= 96 {
			n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
		}
		all[i] = n.Masked()
	}
	return all
}

// Allows tells whether the app's scopes and the token's allow t. It allocates
// nothing.
func (p *Principal) Allows(t scope.Target) bool {
	return p.AppScopes.Allows(t) && p.TokenScopes.Allows(t)
}

// Missing names a scope that would let the credential call t, where it may not.
func (p *Principal) Missing(t scope.Target) string { return t.Method }

// AllowsFrom tells whether the token may be used from an address, an IP as
// text. What is no IP address, such as a Unix socket's peer, is in no network.
func (p *Principal) AllowsFrom(ip string) bool {
	if len(p.Networks) == 0 {
		return true
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, network := range p.Networks {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

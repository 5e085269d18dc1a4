package auth

import "strings"

// Identity says which of its facts a principal tells a backend; see
// [Principal.Identity].
type Identity uint8

// The facts, to be joined by |.
const (
	IdentityApp     Identity = 1 << iota // x-rpcgate-app
	IdentityTokenID                      // x-rpcgate-token-id
	IdentityScopes                       // x-rpcgate-scopes
)

// IdentityOf reads the names that the configuration has for the facts, and
// leaves out what is none of them.
func IdentityOf(names []string) (of Identity) {
	for _, name := range names {
		switch name {
		case "app":
			of |= IdentityApp
		case "token_id":
			of |= IdentityTokenID
		case "scopes":
			of |= IdentityScopes
		}
	}
	return of
}

// facts are what backends may be told, as metadata keys and values in turn: the
// app, the token's id, the scopes, and the app again. In a ring of three, each
// choice of them stands in one piece.
type facts [8]string

func (p *Principal) newFacts() *facts {
	f := &facts{"x-rpcgate-app", p.App, "x-rpcgate-token-id", p.TokenID, "x-rpcgate-scopes", p.ScopeText}
	copy(f[6:], f[:2])
	return f
}

// Identity gives what a backend is told of the principal, as metadata keys and
// values in turn. The slice is shared: it must not be changed. A token without
// an id has none to tell. Only of principals made by [NewPrincipal] and the
// verifier it is free.
func (p *Principal) Identity(of Identity) []string {
	if p.TokenID == "" {
		of &^= IdentityTokenID
	}
	f := p.facts
	if f == nil && of != 0 {
		f = p.newFacts()
	}
	switch of {
	case IdentityApp:
		return f[0:2:2]
	case IdentityTokenID:
		return f[2:4:4]
	case IdentityScopes:
		return f[4:6:6]
	case IdentityApp | IdentityTokenID:
		return f[0:4:4]
	case IdentityTokenID | IdentityScopes:
		return f[2:6:6]
	case IdentityScopes | IdentityApp:
		return f[4:8:8]
	case IdentityApp | IdentityTokenID | IdentityScopes:
		return f[0:6:6]
	default:
		return nil
	}
}

// maxScopeText bounds what a backend is told of scopes, in bytes: it goes with
// every call.
const maxScopeText = 1024

// scopeText lists scopes for backends; those that do not fit are left out, so
// that it never says more than is allowed.
func scopeText(list []string) string {
	var b strings.Builder
	for _, scope := range list {
		separator := ""
		if b.Len() > 0 {
			separator = ", "
		}
		if b.Len()+len(separator)+len(scope) <= maxScopeText {
			b.WriteString(separator + scope)
		}
	}
	return b.String()
}

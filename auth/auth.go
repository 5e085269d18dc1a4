// Package auth owns credentials: how they are read from a request, and their
// verification, with the revocations that Redis publishes. The records of apps
// and tokens, and what changes them, are tenant's.
//
// What it promises:
//
//   - A credential is either proved or refused. Where Redis cannot be asked and
//     nothing is remembered, [ErrUnavailable] says so: it is never taken for a
//     wrong token, nor an unknown app for a good one, in any mode.
//   - Secrets are kept as SHA-256 hashes, in Redis and in memory, and compared
//     in constant time. (The layout of go-zero's zRPC has them in plain text in
//     Redis; here they are hashed as soon as they are read.)
//   - No error, log line or formatted value of this package holds a secret,
//     except [Credential].Token itself.
//   - A revocation is heard within a second; what may have been missed while
//     the subscription was interrupted is looked up again.
//   - What a process knows to be revoked stays so, whatever Redis says later.
package auth

import (
	"net/netip"
	"time"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/config"
)

// Credential is an app and its token, as a caller presented them. However it is
// formatted, logged or marshalled, the token is left out.
type Credential struct{ App, Token string }

// Principal is a credential that was verified. It holds no secret. Many calls
// share one Principal: it must not be changed.
type Principal struct {
	App string
	// TokenID is the public part of the token; "" where an app has but one
	// token, without an id (layout gozero).
	TokenID string
	// Expires is zero if the token does not expire.
	Expires time.Time
	// Priority is the app's: low, normal, high or critical; empty: its route's.
	Priority string
	// Weight is the app's share under saturation, against other apps'; 0: 1.
	Weight int
	// AppLimits and TokenLimits are the records' own; of one that is zero, what
	// the configuration says holds.
	AppLimits, TokenLimits config.Limits
	// AppScopes and TokenScopes are what app and token may call: only what both
	// allow. Nil allows everything.
	AppScopes, TokenScopes *scope.Set
	// ScopeText lists what that is, for backends, with commas in between; "*":
	// everything.
	ScopeText string
	// Networks are where the token may be used from; none: anywhere. Those of
	// IPv4 are in its own form.
	Networks []netip.Prefix

	facts *facts // nil for one that NewPrincipal did not make
	state *state // nil for one that was not verified
}

// Revoked tells whether this process has learnt, since the verification, that
// the credential is not valid any more. A long-lived call that asks after it
// has registered itself with what [VerifierOptions].OnRevoke ends misses no
// revocation in between, as long as the credential is remembered: looking it up
// again keeps the tie, but a principal whose record was evicted, or dropped for
// a change that left it valid, is not told. OnRevoke is called all the same.
func (p *Principal) Revoked() bool { return p.state != nil && p.state.revoked.Load() }

// Revocation says that a credential is not valid any more.
type Revocation struct {
	App string
	// TokenID is "" for all tokens of the app.
	TokenID string
}

package gateway

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/limits"
)

// Recaller is a [Verifier] that can tell what it knows of a credential by itself.
// Only with one are guesses bounded: a credential that it knows to be good must
// pass whoever else guesses.
type Recaller interface {
	Verifier
	Recall(c auth.Credential) (*auth.Principal, auth.Recollection, error)
}

// guard bounds how often credentials may be guessed. Those that are known to be
// good pass it, and those that are known not to be, which cost nothing, do not
// count: a program that goes on with an old token keeps nobody beside it out.
type guard struct {
	Recaller
	guesses *limits.Guesses
}

// newGuard gives a guard before v; nil where guesses are not to be bounded, or v
// cannot tell what it knows.
func newGuard(v Verifier, guesses *limits.Guesses) *guard {
	r, ok := v.(Recaller)
	if !ok || guesses == nil {
		return nil
	}
	return &guard{r, guesses}
}

// verify proves the call's credential.
func (g *guard) verify(ctx context.Context, c *Call) (*auth.Principal, error) {
	p, known, err := g.Recall(c.Credential)
	switch known {
	case auth.Settled:
		return p, err
	case auth.Proved:
		return g.Verify(ctx, c.Credential)
	case auth.Unproved:
	}
	from, _ := netip.ParseAddr(c.ClientIP) // a Unix socket's peer has none
	if wait, ok := g.guesses.Allow(time.Now(), from, c.Credential.App); !ok {
		return nil, &throttledError{wait}
	}
	p, err = g.Verify(ctx, c.Credential)
	if errors.Is(err, auth.ErrInvalid) {
		g.guesses.Failed(time.Now(), from, c.Credential.App)
	}
	return p, err
}

// throttledError is for who has failed too often to have another credential
// looked up.
type throttledError struct{ wait time.Duration }

func (*throttledError) Error() string { return "too many failed authentications" }

func isTooManyFailures(err error) bool {
	_, ok := errors.AsType[*throttledError](err)
	return ok
}

func describeTooManyFailures(err error) *callError {
	failure := &callError{
		Code: codes.ResourceExhausted, Reason: "TOO_MANY_FAILURES", RetryAfter: time.Second,
		cause:   err,
		Message: "too many authentications have failed from this address or for this app; credentials that are not known here have to wait",
	}
	if e, ok := errors.AsType[*throttledError](err); ok {
		failure.RetryAfter = max(failure.RetryAfter, e.wait)
	}
	return failure
}

// verification gives how calls are authenticated: by the guard, where there is
// one.
func (g *Gateway) verification() func(context.Context, *Call) (*auth.Principal, error) {
	if guard := newGuard(g.verifier, g.guesses); guard != nil {
		return guard.verify
	}
	return func(ctx context.Context, c *Call) (*auth.Principal, error) {
		return g.verifier.Verify(ctx, c.Credential)
	}
}

package auth

import "github.com/rpcgate/rpcgate/credcache"

// Recollection is what a verifier knows of a credential without asking Redis.
type Recollection uint8

// Unproved: nothing that says that it is good; whoever made it up may have it
// looked up. Proved: it was good when it was last looked up, and may be due again.
// Settled: it needs no look-up, whether it is good or not.
const (
	Unproved Recollection = iota
	Proved
	Settled
)

// Recall is [Verifier.Verify] without Redis. Only what is Settled has a principal
// or an error; with anything else it is for Verify.
//
// A wrong secret is not settled even where the token's record is remembered: it
// takes the way of one that is not known, so that whoever guesses is told by the
// time neither that an app's token is in use nor that there is one.
func (v *Verifier) Recall(c Credential) (*Principal, Recollection, error) {
	if err := ValidateApp(c.App); err != nil {
		return nil, Settled, err
	}
	id, hash, err := v.layout.parse(c.Token)
	if err != nil {
		return nil, Settled, &Error{kind: ErrInvalid, cause: err}
	}
	r, memory := v.cache.Recall(cacheKey{c.App, id})
	switch memory {
	case credcache.Missing:
		return nil, Settled, ErrInvalid
	case credcache.Unknown:
		return nil, Unproved, nil
	case credcache.Fresh, credcache.Stale:
	}
	switch {
	case !r.has(hash):
		return nil, Unproved, nil
	case memory == credcache.Stale:
		return nil, Proved, nil
	}
	if err := r.verdict(hash); err != nil {
		return nil, Settled, err
	}
	r.principal.state.use()
	return &r.principal, Settled, nil
}

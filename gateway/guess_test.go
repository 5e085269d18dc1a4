package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

// store is a Recaller over credentials that are good, each remembered once it was
// looked up.
type store struct {
	mu       sync.Mutex
	good     map[auth.Credential]*auth.Principal
	known    map[auth.Credential]auth.Recollection
	missing  map[auth.Credential]bool
	down     bool
	lookedUp int
}

func newStore(good ...auth.Credential) *store {
	s := &store{good: map[auth.Credential]*auth.Principal{}, known: map[auth.Credential]auth.Recollection{}, missing: map[auth.Credential]bool{}}
	for _, c := range good {
		s.good[c] = &auth.Principal{App: c.App}
	}
	return s
}

func (s *store) Recall(c auth.Credential) (*auth.Principal, auth.Recollection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.missing[c]:
		return nil, auth.Settled, auth.ErrInvalid
	case s.known[c] == auth.Settled:
		return s.good[c], auth.Settled, nil
	}
	return nil, s.known[c], nil
}

func (s *store) Verify(_ context.Context, c auth.Credential) (*auth.Principal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookedUp++
	switch p, ok := s.good[c]; {
	case s.down:
		return nil, auth.ErrUnavailable
	case ok:
		s.known[c] = auth.Settled
		return p, nil
	}
	s.missing[c] = true
	return nil, auth.ErrInvalid
}

const (
	attacker  = "192.0.2.66"
	elsewhere = "198.51.100.7"
)

func attempt(g *guard, ip, app, token string) error {
	_, err := g.verify(context.Background(), &Call{ClientIP: ip, Credential: auth.Credential{App: app, Token: token}})
	return err
}

// attack has an address try made-up tokens of an app, and gives how it ended.
func attack(g *guard, ip, app string, n int) (err error) {
	for i := range n {
		err = attempt(g, ip, app, fmt.Sprint("made-up-", ip, i))
	}
	return err
}

func TestGuessesKeepNoGoodCallerOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := auth.Credential{App: "acme", Token: "known"}
		due := auth.Credential{App: "acme", Token: "due"}
		other := auth.Credential{App: "acme", Token: "not yet known"}
		third := auth.Credential{App: "other", Token: "of another app"}
		s := newStore(known, due, other, third)
		s.known[known], s.known[due] = auth.Settled, auth.Proved
		g := newGuard(s, limits.NewGuesses(config.Guessing{PerAddress: 10, PerApp: 100, Per: time.Minute}))

		if err := attack(g, attacker, "acme", 1000); !isTooManyFailures(err) {
			t.Fatalf("after a thousand guesses: %v", err)
		}
		if s.lookedUp != 10 {
			t.Errorf("%d look-ups for a thousand guesses, want 10", s.lookedUp)
		}
		for _, good := range []auth.Credential{known, due} {
			if err := attempt(g, attacker, good.App, good.Token); err != nil {
				t.Errorf("the known credential %s is kept out at the attacker's address: %v", good.Token, err)
			}
		}
		if err := attempt(g, attacker, other.App, other.Token); !isTooManyFailures(err) {
			t.Errorf("one that is not known, from the attacker's address: %v", err)
		}
		failure := describe(attempt(g, attacker, "acme", "once more"))
		if failure.Reason != "TOO_MANY_FAILURES" || failure.HTTPStatus() != 429 || failure.RetryAfter < time.Second || failure.RetryAfter > 2*time.Minute {
			t.Errorf("refused with %+v", failure)
		}
		// 10,000 addresses for one app.
		for i := range 10_000 {
			_ = attack(g, fmt.Sprintf("10.1.%d.%d", i/250, i%250), "acme", 2)
		}
		if s.lookedUp > 10_000 {
			t.Errorf("%d look-ups", s.lookedUp)
		}
		before := s.lookedUp
		if err := attempt(g, elsewhere, third.App, third.Token); err != nil || s.lookedUp != before+1 {
			t.Errorf("another app's caller is kept out: %v", err)
		}
		time.Sleep(6 * time.Second) // 100 a minute for the app, and 20 times as many from new addresses
		if err := attempt(g, elsewhere, other.App, other.Token); err != nil {
			t.Errorf("a good caller from elsewhere is kept out: %v", err)
		}
	})
}

// A program that goes on with a token that is not good any more is told so, and
// keeps nobody beside it out.
func TestTheSameBadTokenCountsOnce(t *testing.T) {
	t.Parallel()
	other := auth.Credential{App: "acme", Token: "good"}
	s := newStore(other)
	g := newGuard(s, limits.NewGuesses(config.Guessing{PerAddress: 2, PerApp: 2, Per: time.Hour}))
	for range 1000 {
		if err := attempt(g, attacker, "acme", "old"); !errors.Is(err, auth.ErrInvalid) {
			t.Fatal(err)
		}
	}
	if err := attempt(g, attacker, other.App, other.Token); err != nil {
		t.Errorf("the neighbour is kept out: %v", err)
	}
}

func TestAStoreThatIsDownIsNobodysFailure(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.down = true
	g := newGuard(s, limits.NewGuesses(config.Guessing{PerAddress: 2, PerApp: 2, Per: time.Hour}))
	if err := attack(g, attacker, "acme", 100); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestGuessesMayBeUnbounded(t *testing.T) {
	t.Parallel()
	if newGuard(newStore(), limits.NewGuesses(config.Guessing{Per: time.Minute})) != nil {
		t.Error("there is a guard with nothing to guard")
	}
}

package auth

import (
	"context"
	"testing"
	"testing/synctest"
)

// scripted is the layout gozero with a Redis that answers when, and as, the
// test says.
type scripted struct {
	goZeroLayout
	asked chan chan<- string // each look-up waits for its token
}

func (s scripted) load(_ context.Context, k cacheKey) (*record, error) {
	answer := make(chan string)
	s.asked <- answer
	return &record{principal: Principal{App: k.app}, hash: hashOf(<-answer)}, nil
}

// A look-up that read the old token, and comes back after another has stored
// the new one, does not take the new one for revoked.
func TestLateLookUpSparesTheNewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil, goZero())
		s := scripted{asked: make(chan chan<- string)}
		g.layout = s
		verify := func(token string) <-chan *Principal {
			got := make(chan *Principal, 1)
			go func() {
				p, _ := g.Verify(context.Background(), Credential{"acme", token})
				got <- p
			}()
			return got
		}

		old := verify("old")
		late := <-s.asked
		// A change is told; the look-up on its way is not heard any more.
		g.forget(message{kind: kindRevoked, app: "acme"})
		fresh := verify("new")
		(<-s.asked) <- "new" // for whichever of the two asks first
		p := <-fresh
		if p == nil {
			t.Fatal("the new token was refused")
		}
		late <- "old"
		synctest.Wait()
		if p.Revoked() || g.told(Revocation{App: "acme"}) {
			t.Error("a look-up that came late took the new token for revoked")
		}
		if again := <-verify("new"); again == nil {
			t.Error("the new token is refused")
		}
		if p := <-old; p != nil {
			t.Error("the old token was accepted")
		}
	})
}

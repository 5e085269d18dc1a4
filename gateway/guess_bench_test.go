package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

// BenchmarkGuess compares what authentication costs a call with a known credential
// and one with a made-up credential that is refused: without the rest of the call,
// which the latter does not have at all.
func BenchmarkGuess(b *testing.B) {
	known := auth.Credential{App: "acme", Token: "known"}
	s := newStore(known)
	s.known[known] = auth.Settled
	g := newGuard(s, limits.NewGuesses(config.Guessing{PerAddress: 1, PerApp: 1, Per: time.Hour}))
	_ = attack(g, attacker, "acme", 10)
	ctx := context.Background()
	for name, c := range map[string]*Call{
		"known":   {ClientIP: elsewhere, Credential: known},
		"made up": {ClientIP: attacker, Credential: auth.Credential{App: "acme", Token: "made-up"}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = g.verify(ctx, c)
			}
		})
	}
}

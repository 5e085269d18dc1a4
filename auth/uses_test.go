package auth

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// lastUsed is what Redis has; 0: nothing.
func lastUsed(t *testing.T, s *redisServer, i tenant.Issued) int64 {
	t.Helper()
	text, _ := s.client().HGet(t.Context(), tenant.KeysOf(config.Auth{}).Token(i.App, i.ID), "last_used").Result()
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func TestUsesAreWrittenDown(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	used, unused, gone := issue(t, s, "acme"), issue(t, s, "acme"), issue(t, s, "acme")
	g := newGateway(t, server.client(), config.Auth{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	g.hearing(t)
	g.verify(t, credential(used), nil)
	g.verify(t, credential(gone), nil)
	wrong := credential(unused)
	wrong.Token = reSum(unused.Secret[:secretStart] + used.Secret[secretStart:])
	g.verify(t, wrong, ErrInvalid)
	if at := lastUsed(t, server, used); at != 0 {
		t.Errorf("it was written at once: %d", at)
	}
	key := tenant.KeysOf(config.Auth{}).Token("acme", gone.ID)
	if err := server.client().Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}

	stop() // writes what is left
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	at := lastUsed(t, server, used)
	if ago := time.Since(time.UnixMilli(at)); ago < 0 || ago > limit {
		t.Errorf("last used %v ago", ago)
	}
	if at := lastUsed(t, server, unused); at != 0 {
		t.Errorf("a wrong secret counts as a use: %d", at)
	}
	if n, err := server.client().Exists(t.Context(), key).Result(); err != nil || n != 0 {
		t.Errorf("a token that was gone is back: %d, %v", n, err)
	}
}

// Whichever gateway a token is used at, Redis is written to once in a minute.
func TestUsesAreWrittenOnceInAMinute(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	token := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
	one, two := newGateway(t, server.client(), config.Auth{}), newGateway(t, server.client(), config.Auth{})
	write := func(g *gateway) int64 {
		t.Helper()
		g.verify(t, credential(token), nil)
		if err := g.writeUses(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		return lastUsed(t, server, token)
	}
	first := write(one)
	if first == 0 {
		t.Fatal("nothing was written")
	}
	if again, other := write(one), write(two); again != first || other != first {
		t.Errorf("written at %d, %d and %d", first, again, other)
	}
	key := tenant.KeysOf(config.Auth{}).Token("acme", token.ID)
	if err := rdb.HSet(t.Context(), key, "last_used", first-60_000).Err(); err != nil {
		t.Fatal(err)
	}
	if after := write(two); after < first {
		t.Errorf("a minute later it is %d, was %d", after, first)
	}
	// Another Redis' clock may have said anything.
	if err := rdb.HSet(t.Context(), key, "last_used", time.Now().Add(time.Hour).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	if after := time.UnixMilli(write(one)); time.Until(after) > time.Minute {
		t.Errorf("it was used in the future, at %v", after)
	}
	// Nothing was used since: nothing is asked.
	before := server.calls(rdb, "eval")
	if err := one.writeUses(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if err := two.writeUses(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if n := server.calls(rdb, "eval") - before; n > 0 {
		t.Errorf("%d writes for nothing", n)
	}
}

// What could not be written is written the next time.
func TestUsesOutliveAnOutage(t *testing.T) {
	server := startRedis(t)
	var tokens []tenant.Issued
	s := tenant.NewStore(server.client(), config.Auth{})
	for range 3 {
		tokens = append(tokens, issue(t, s, "acme"))
	}
	g := newGateway(t, server.client(), config.Auth{})
	for _, token := range tokens {
		g.verify(t, credential(token), nil)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.writeUses(ended, limit); err == nil {
		t.Fatal("it was written without Redis")
	}
	if err := g.writeUses(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if lastUsed(t, server, token) == 0 {
			t.Errorf("token %s is not marked as used", token.ID)
		}
	}
}

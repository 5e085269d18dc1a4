package auth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/redis/go-redis/v9"
)

// listen hears one subscription to a channel to its end. begin is called once
// Redis has confirmed it: from then on nothing is missed. confirmed tells whether
// that came to be.
//
// go-redis would make a lost connection anew by itself, and hide that messages
// were missed. Here one subscription is one connection: its first error, or a
// second confirmation, ends it.
func (v *Verifier) listen(ctx context.Context, channel string, begin func(), hear func(text string)) (confirmed bool, err error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ps := v.subscriber(ctx).Subscribe(ctx)
	closePS := sync.OnceFunc(func() { _ = ps.Close() })
	defer closePS()
	defer context.AfterFunc(ctx, closePS)() // a read does not heed ctx

	if err := ps.Subscribe(ctx, channel); err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	first, err := ps.ReceiveTimeout(ctx, v.timing.pingTimeout)
	if err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	if _, ok := first.(*redis.Subscription); !ok {
		return false, fmt.Errorf("subscribe: an unexpected answer, %T", first)
	}
	begin()
	wg.Go(func() { v.ping(ctx, ps) })
	for {
		// Every pingInterval there is a pong, or the connection is dead.
		got, err := ps.ReceiveTimeout(ctx, v.timing.pingInterval+v.timing.pingTimeout)
		if err != nil {
			return true, fmt.Errorf("receive: %w", err)
		}
		switch m := got.(type) {
		case *redis.Message:
			hear(m.Payload)
		case *redis.Subscription:
			return true, errors.New("the connection was made anew")
		}
	}
}

// subscriber is what to subscribe with. A cluster carries messages to all its
// nodes, but its client would only ever subscribe on the one node that the
// channel's name hashes to, and not at all while that is down.
func (v *Verifier) subscriber(ctx context.Context) interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
} {
	cluster, ok := v.rdb.(*redis.ClusterClient)
	if !ok {
		return v.rdb
	}
	var mu sync.Mutex
	var nodes []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil || len(nodes) == 0 {
		return cluster
	}
	return nodes[rand.N(len(nodes))] //nolint:gosec // any will do
}

func (v *Verifier) ping(ctx context.Context, ps *redis.PubSub) {
	for sleep(ctx, v.timing.pingInterval) {
		// An error shows in ReceiveTimeout too.
		_ = ps.Ping(ctx)
	}
}

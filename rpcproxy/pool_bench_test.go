package rpcproxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rpcgate/rpcgate/config"
)

// benchPool is a pool of n connections that never connect, all of them one, for
// it is the pool that is measured; and their credentials.
func benchPool(b *testing.B, n int) (*Pool, []Credential) {
	b.Helper()
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	p, err := newPool(poolConfig(func(c *config.Pool) { c.MaxConns = max(n, 1) }),
		func(*connKey) (*grpc.ClientConn, error) { return conn, nil },
		poolObserver{dialed: func(error) {}, retired: func(reason) {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.shutdown(context.Background()) })
	return p, benchCredentials(n)
}

// benchCredentials are as long as real ones.
func benchCredentials(n int) []Credential {
	list := make([]Credential, n)
	for i := range list {
		list[i] = Credential{
			App:     fmt.Sprintf("app-%06d", i),
			TokenID: fmt.Sprintf("%010d", i),
			Token:   fmt.Sprintf("rpg_%010d_%045d", i, i),
		}
	}
	return list
}

func (p *Pool) fill(b *testing.B, all []Credential) {
	b.Helper()
	for _, c := range all {
		l, err := p.Acquire(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

// BenchmarkPoolAcquire is a hit: Acquire and Release. The aim is 150 ns, without
// an allocation, however many there are. It calls for 256 of them, as a busy
// moment does, and for all of them at random, which is what memory that is in no
// cache costs.
func BenchmarkPoolAcquire(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		p, all := benchPool(b, n)
		p.fill(b, all)
		rand.Shuffle(n, func(i, k int) { all[i], all[k] = all[k], all[i] })
		for _, called := range []int{min(n, 256), n} {
			b.Run(fmt.Sprintf("%d keys, %d called", n, called), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					ctx := context.Background()
					i := rand.IntN(called)
					for pb.Next() {
						l, err := p.Acquire(ctx, all[i])
						if err != nil {
							b.Error(err)
							return
						}
						l.Release()
						if i++; i == called {
							i = 0
						}
					}
				})
			})
		}
	}
}

// BenchmarkPoolStorm is the first calls of many credentials, without the making
// of their connections.
func BenchmarkPoolStorm(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				p, all := benchPool(b, n)
				b.StartTimer()
				p.fill(b, all)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
		})
	}
}

// BenchmarkPoolLock is what holds the pool's lock, which calls of new credentials
// wait for, with 100,000 connections.
func BenchmarkPoolLock(b *testing.B) {
	const n = 100_000
	p, all := benchPool(b, n)
	p.fill(b, all)
	b.Run("evict", func(b *testing.B) {
		for i := range b.N {
			l, err := p.Acquire(context.Background(), Credential{App: "other", Token: fmt.Sprint(i)})
			if err != nil {
				b.Fatal(err)
			}
			l.Release()
		}
	})
	b.Run("revoke", func(b *testing.B) {
		for range b.N {
			p.revoke("nobody", "", false)
		}
	})
	b.Run("expire", func(b *testing.B) {
		p.cfg.IdleTimeout = time.Hour
		for range b.N {
			p.expireIdle()
		}
	})
}

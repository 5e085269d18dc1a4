package rpcproxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// BenchmarkChain is a call's way through breaker, deadline, retry, balancing and
// ejection, without a connection: the sending is choosing an endpoint. What is
// measured besides these are the attempt's metrics.
//
// The figures to reach, on two processors: 2 µs of processor time a call, and
// with 64 goroutines no more than 1.3 times what it is with one.
func BenchmarkChain(b *testing.B) {
	const endpoints = 10
	for _, goroutines := range []int{1, 64} {
		for _, policy := range []string{"p2c_ewma", "round_robin", "ring_hash"} {
			b.Run(fmt.Sprintf("%s/%d goroutines", policy, goroutines), func(b *testing.B) {
				backend := newBackend(b, "127.0.0.1:1", func(c *config.Backend) { c.Balancer.Policy = policy },
					Options{Registerer: prometheus.NewRegistry()})
				var list []fleet.Info
				for i := range endpoints {
					list = append(list, fleet.Info{Address: fmt.Sprintf("10.0.0.%d:1", i)})
				}
				set := backend.fleet.NewSet(backend.fleet.Update(list))
				backend.retrier.send = func(a *attempt, _ context.Context) error {
					a.choose()
					set.Pick(&a.choice)
					return nil
				}
				request := Request{Method: testMethod, Credential: app("acme")}
				ctx := context.Background()
				m, err := backend.methods.get(testMethod)
				if err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				report := cpu(b)
				for range goroutines {
					wg.Go(func() {
						ex := &benchExchange{}
						const batch = 256
						for {
							n := left.Add(-batch) + batch
							if n <= 0 {
								return
							}
							for range min(n, batch) {
								c := newCall(ctx, backend, m, &request, ex)
								if err := backend.run(ctx, c); err != nil {
									b.Error(err)
									return
								}
							}
						}
					})
				}
				wg.Wait()
				report()
			})
		}
	}
}

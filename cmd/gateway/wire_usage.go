package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/gateway"
	"github.com/rpcgate/rpcgate/usage"
)

// accounting counts what apps use, and adds it to Redis. The zero value counts
// nothing.
type accounting struct {
	counts  *usage.Counts
	flusher *usage.Flusher
}

func (p *parts) wireUsage(rdb redis.UniversalClient, reg prometheus.Registerer) error {
	if p.cfg.Usage.Interval <= 0 {
		return nil
	}
	counts := usage.NewCounts()
	f, err := usage.NewFlusher(counts, rdb, tenant.KeysOf(p.cfg.Auth), p.cfg.Usage, usage.FlusherOptions{Logger: p.log, Registerer: reg})
	if err != nil {
		return err
	}
	p.usage = accounting{counts, f}
	return nil
}

// into has the gateway count.
func (a accounting) into(deps *gateway.Deps) {
	if a.counts != nil { // a nil *Counts would be an interface that is not nil
		deps.Usage = a.counts
	}
}

// run flushes until ctx ends, and then once more.
func (a accounting) run(ctx context.Context) error {
	if a.flusher == nil {
		return nil
	}
	return a.flusher.Run(ctx)
}

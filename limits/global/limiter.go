package global

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

// Options are a limiter's surroundings. The zero value is silence.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Gateways tells how many gateways share the limits, where the configuration does
	// not; nil, and what is below 1: one.
	Gateways func() int
	// Limits is how many limits are remembered; 0: 65,536.
	Limits int
}

// Limiter gives the allowances of limits, and asks Redis for them. Run must run
// while they are used.
type Limiter struct {
	rdb      redis.UniversalClient
	rates    *redis_rate.Limiter
	quotas   *redis.Script
	keys     tenant.Keys
	whenDown limits.WhenDown
	gateways func() int
	most     int
	node     string // names this process in quotas' counters
	log      *slog.Logger
	metrics  *metrics
	start    time.Time
	down     atomic.Bool // for the log

	mu    sync.Mutex
	known map[limits.Key]*limit

	queue queue
}

// limit is an allowance that is remembered.
type limit struct {
	key       limits.Key
	allowance *limits.Allowance
	timer     *time.Timer // whoever has the question to ask
	seen      int64       // sweep's: Used the last time
	idle      int         // sweep's and evict's: how many sweeps ago it was used
	settling  bool        // retired: the question that is left is settled
	last      limits.Question
}

// New makes a limiter. It asks Redis nothing yet.
func New(rdb redis.UniversalClient, auth config.Auth, cfg config.Limiting, o Options) (*Limiter, error) {
	l := &Limiter{
		rdb: rdb, rates: redis_rate.NewLimiter(ownKeys{rdb}), quotas: newQuotaScript(),
		keys: tenant.KeysOf(auth), node: crand.Text(), whenDown: limits.ParseWhenDown(cfg.StoreDown),
		most: cmp.Or(o.Limits, 65536), log: o.Logger, start: time.Now(), known: map[limits.Key]*limit{},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.gateways = func() int {
		switch {
		case cfg.Gateways > 0:
			return cfg.Gateways
		case o.Gateways != nil:
			return max(1, o.Gateways())
		default:
			return 1
		}
	}
	l.queue.serve = l.serve
	var err error
	if l.metrics, err = newMetrics(o.Registerer, l); err != nil {
		return nil, fmt.Errorf("limits: register metrics: %w", err)
	}
	return l, nil
}

// Now is the time for allowances.
func (l *Limiter) Now() time.Duration { return time.Since(l.start) }

// Find gives the allowance of a limit, with these numbers from now on. It takes a
// lock: whoever finds one keeps it, until it is retired.
func (l *Limiter) Find(key limits.Key, spec limits.Spec) *limits.Allowance {
	now, gateways := l.Now(), l.gateways()
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.known[key]; m != nil {
		m.idle = 0
		m.allowance.Change(spec, gateways, now)
		return m.allowance
	}
	if len(l.known) >= l.most {
		l.evictLocked(now)
	}
	m := &limit{key: key}
	m.allowance = limits.NewAllowance(spec, gateways, now, limits.AllowanceOptions{
		WhenDown: l.whenDown,
		Ask:      func(after time.Duration) { l.schedule(m, after) },
		Period:   l.periodOf(key.Period),
		Random:   rand.Float64,
	})
	l.known[key] = m
	return m.allowance
}

// schedule has a limit's question asked after a while.
func (l *Limiter) schedule(m *limit, after time.Duration) {
	if after <= 0 {
		l.queue.add(m)
		return
	}
	// The allowance has no other question meanwhile, so that nobody else is here.
	if m.timer == nil {
		m.timer = time.AfterFunc(after, func() {
			if m.allowance.Due(l.Now()) {
				l.queue.add(m)
			}
		})
		return
	}
	m.timer.Reset(after)
}

// sampled is how many limits are looked at for the one that was not used for
// longest, as Redis does it for its own.
const sampled = 16

func (l *Limiter) evictLocked(now time.Duration) {
	var oldest *limit
	left := sampled
	for _, m := range l.known { // in random order
		if m.seen != m.allowance.Used() {
			m.seen, m.idle = m.allowance.Used(), 0
		}
		if oldest == nil || m.idle > oldest.idle {
			oldest = m
		}
		if left--; left == 0 {
			break
		}
	}
	delete(l.known, oldest.key)
	l.retire(oldest, now)
}

// retire settles with the store what an allowance that is given up bought or owes.
func (l *Limiter) retire(m *limit, now time.Duration) {
	for _, last := range m.leftover(now) {
		l.queue.add(&limit{key: m.key, settling: true, last: last})
	}
}

// leftover retires the allowance. It gives what to tell the store yet.
func (m *limit) leftover(now time.Duration) (all []limits.Question) {
	if q, ok := m.allowance.Unanswered(); ok {
		all = append(all, q)
	}
	if q := m.allowance.GiveBack(now, true); q.Pay != 0 || q.Buy != 0 || q.Late != 0 {
		all = append(all, q)
	}
	return all
}

// serve asks one question.
func (l *Limiter) serve(ctx context.Context, m *limit) {
	if m.settling {
		answer, err := l.ask(ctx, m.key, m.last)
		l.asked(ctx, m.last, answer, err)
		return
	}
	q := m.allowance.Begin(l.Now())
	answer, err := l.ask(ctx, m.key, q)
	l.asked(ctx, q, answer, err)
	if err != nil {
		m.allowance.Failed(l.Now())
		return
	}
	m.allowance.Answered(l.Now(), l.gateways(), q, answer)
}

// askTimeout bounds a question with all its repetitions.
const askTimeout = time.Second

func (l *Limiter) ask(ctx context.Context, key limits.Key, q limits.Question) (limits.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if key.Period == limits.Rate {
		return l.askRate(ctx, l.keys.Rate(key.App, of(key)+numbers(q.Spec)), q)
	}
	if q.Late > 0 {
		if _, err := l.askQuota(ctx, key, q.LateFor, q.Late, 0, q); err != nil {
			return limits.Answer{}, err
		}
	}
	return l.askQuota(ctx, key, q.Period, q.Pay, q.Buy, q)
}

// asked counts a question, and tells the log when Redis begins and ceases to
// answer.
func (l *Limiter) asked(ctx context.Context, q limits.Question, a limits.Answer, err error) {
	l.metrics.asked(q, a, err)
	switch {
	case err != nil && ctx.Err() == nil && l.down.CompareAndSwap(false, true):
		l.log.WarnContext(ctx, "rates and quotas cannot be shared: redis does not answer", "error", err)
	case err == nil && l.down.CompareAndSwap(true, false):
		l.log.InfoContext(ctx, "rates and quotas are shared again")
	}
}

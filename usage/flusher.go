package usage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

const (
	flushTimeout = 5 * time.Second // of all that one flush asks Redis
	lastTimeout  = 3 * time.Second // of the flush at the end
	pipelined    = 128             // scripts that are sent together
)

// addBatch adds a batch to the hash of an app's day, if it was not added before.
//
//	KEYS[1]  the hash
//	ARGV     the node's field, the batch's number, for how many milliseconds the
//	         hash is kept, and then fields and what to add to each
//
// That a number was seen is noted first: should an addition fail, which only a
// damaged hash makes it, something is lost rather than doubled. The note is in the
// hash itself, so that a Redis which comes back without its latest writes has
// lost both.
var addBatch = redis.NewScript(`
local seen = redis.call('HGET', KEYS[1], ARGV[1])
if seen and tonumber(seen) >= tonumber(ARGV[2]) then
	return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for i = 4, #ARGV, 2 do
	redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`)

// Flusher adds to Redis what was counted, by Run.
type Flusher struct {
	counts   *Counts
	rdb      redis.UniversalClient
	keys     tenant.Keys
	interval time.Duration
	keep     string // in milliseconds
	node     string // this process' field
	log      *slog.Logger

	ledgers  ledgers
	taken    time.Time // when the counts were last taken
	failing  bool
	failures prometheus.Counter
}

// FlusherOptions are what a flusher reports to; the zero value is silence.
type FlusherOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewFlusher makes a flusher of counts. cfg.Interval must not be 0.
func NewFlusher(counts *Counts, rdb redis.UniversalClient, keys tenant.Keys, cfg config.Usage, o FlusherOptions) (*Flusher, error) {
	if cfg.Interval <= 0 {
		return nil, errors.New("usage: the interval is not positive")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Flusher{
		counts: counts, rdb: rdb, keys: keys, log: o.Logger,
		interval: cfg.Interval, keep: strconv.FormatInt(max(cfg.Keep, day).Milliseconds(), 10),
		node:    "#" + rand.Text(),
		ledgers: ledgers{of: map[account]*ledger{}},
		taken:   time.Now(),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpcgate_usage_flush_failures_total",
			Help: "Flushes of usage to Redis that failed, or of which some did; what was counted is kept and flushed again.",
		}),
	}
	if o.Registerer == nil {
		return f, nil
	}
	for _, c := range []prometheus.Collector{
		f.failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpcgate_usage_unflushed_calls",
			Help: "Calls that were counted, and are not known to be in Redis after a flush.",
		}, func() float64 { return float64(f.ledgers.unflushed.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "rpcgate_usage_lost_calls_total",
			Help: "Calls that are missing in the usage, as there was no room to count their apps.",
		}, func() float64 { return float64(counts.lost.Load() + f.ledgers.lost.Load()) }),
	} {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("usage: register metrics: %w", err)
		}
	}
	return f, nil
}

// Run flushes until ctx ends, and then once more. It always returns nil.
func (f *Flusher) Run(ctx context.Context) error {
	for {
		now := time.Now()
		// At midnight, so that each day gets what is its own.
		timer := time.NewTimer(min(f.interval, dayOf(now).Add(day).Sub(now)))
		select {
		case <-ctx.Done():
			timer.Stop()
			f.take(time.Now())
			f.flush(context.WithoutCancel(ctx), lastTimeout)
			if n := f.ledgers.unflushed.Load(); n > 0 {
				f.log.WarnContext(ctx, "usage that could not be flushed is lost", slog.Int64("calls", n))
			}
			return nil
		case <-timer.C:
		}
		f.take(time.Now())
		f.flush(ctx, flushTimeout)
	}
}

// take books what was counted since it last did, for the day that it was then.
func (f *Flusher) take(now time.Time) {
	f.counts.take(func(app, route string, used Used) { f.ledgers.add(f.taken.UTC(), app, route, used) })
	f.taken = now
}

// flush adds to Redis what the ledgers have, as far as Redis can be asked.
func (f *Flusher) flush(ctx context.Context, timeout time.Duration) {
	if len(f.ledgers.of) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f.flushAll(ctx)
	if err != nil {
		f.failures.Inc()
	}
	if failing := err != nil; failing != f.failing {
		f.failing = failing
		if failing {
			f.log.WarnContext(ctx, "usage cannot be flushed; it is kept", slog.Any("error", err))
		} else {
			f.log.InfoContext(ctx, "usage is flushed again")
		}
	}
}

// flushAll gives the first error. What Redis refuses of one app keeps nothing of
// the others'; that it cannot be asked ends it.
func (f *Flusher) flushAll(ctx context.Context) error {
	accounts := make([]account, 0, len(f.ledgers.of))
	for a := range f.ledgers.of {
		accounts = append(accounts, a)
	}
	var first error
	for len(accounts) > 0 {
		n := min(pipelined, len(accounts))
		more, err := f.send(ctx, accounts[:n])
		if err != nil && first == nil {
			first = err
		}
		if err != nil && !isAnswer(err) {
			return first
		}
		accounts = append(accounts[n:], more...)
	}
	return first
}

// send sends a batch of each account. more are those that have another one.
func (f *Flusher) send(ctx context.Context, accounts []account) (more []account, first error) {
	commands, err := f.pipe(ctx, accounts, addBatch.EvalSha)
	if err != nil && anyNoScript(commands) {
		// Those that were added are not added again.
		commands, err = f.pipe(ctx, accounts, addBatch.Eval)
	}
	if len(commands) < len(accounts) {
		return nil, err // none was sent
	}
	for i, a := range accounts {
		if err := commands[i].Err(); err != nil {
			if first == nil || !isAnswer(err) {
				first = fmt.Errorf("add to %s: %w", f.keys.Usage(a.app, a.day), err)
			}
			continue
		}
		f.ledgers.settle(a)
		if f.ledgers.of[a] != nil {
			more = append(more, a)
		}
	}
	return more, first
}

type evaluate func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (f *Flusher) pipe(ctx context.Context, accounts []account, run evaluate) ([]redis.Cmder, error) {
	return f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, a := range accounts {
			b := f.ledgers.batchOf(a)
			args := make([]any, 0, 3+12*len(b.used))
			args = append(args, f.node, b.number, f.keep)
			for route, u := range b.used {
				for name, n := range u.counters {
					args = append(args, name+" "+route, n)
				}
			}
			run(ctx, p, []string{f.keys.Usage(a.app, a.day)}, args...)
		}
		return nil
	})
}

func anyNoScript(commands []redis.Cmder) bool {
	for _, c := range commands {
		if redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			return true
		}
	}
	return false
}

// isAnswer tells an error that is Redis' answer from not getting one.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/limits/load"
	"github.com/rpcgate/rpcgate/telemetry"
)

// shedder sheds calls when there are more than the gateway can serve. What is not
// a call of a route, such as the health service and the operators' port, does not
// come by it.
type shedder struct {
	overload *limits.Overload
	turns    *turns
	bytes    *limits.Budget
	line     refusalLine
	metrics  *telemetry.Overload
	counters [limits.Verdicts][limits.Priorities]prometheus.Counter
	maxCalls int
	totals   [limits.Verdicts]atomic.Uint64 // of counters
}

func newShedder(cfg config.Overload, reg prometheus.Registerer) *shedder {
	s := &shedder{overload: limits.NewOverload(cfg), turns: newTurns(), bytes: limits.NewBudget(int64(cfg.MaxHeldSize)), metrics: telemetry.NewOverload(reg), maxCalls: cfg.MaxCalls}
	s.metrics.Admitted.Set(1)
	for v := limits.Admitted + 1; v < limits.Verdicts; v++ {
		for p := range limits.Priority(limits.Priorities) {
			s.counters[v][p] = s.metrics.Shed(v.String(), p.String())
		}
	}
	return s
}

// enter is the step before authentication: it bounds what is in flight, and costs
// next to nothing to those that it sheds. The call keeps its place until it is
// over, whichever way.
func (s *shedder) enter(p limits.Priority) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			if err := ctx.Err(); err != nil {
				return err // it waited so long to be run that its caller has given up
			}
			if v := s.overload.Enter(&c.ticket, p); v != limits.Admitted {
				return s.shed(ctx, v, p)
			}
			if !c.answered {
				defer c.leave()
			}
			c.turns = s.turns
			err := next(ctx, c)
			if err != nil && c.Principal == nil && !c.Route.AuthNone {
				// To refuse it takes nearly as long as to serve a call: a flood of
				// made-up credentials has its turns, too.
				stranger := s.overload.Stranger()
				s.turns.own(ctx, stranger)
				if gone := s.turns.wait(ctx, stranger, limits.RankRefusal, costOfRefusal); gone != nil {
					return gone
				}
			}
			return err
		}
	}
}

// leave gives back what the call holds, if it does.
func (c *Call) leave() {
	c.held.free()
	c.ticket.Leave()
}

// admit is the step after authentication, where it is known for sure whose call
// it is: fairness by what a caller claims to be would let anybody use up an app's
// share in its name. While processors are short the call waits for its app's turn,
// be it to be refused: that takes nearly as long as to serve it.
func (s *shedder) admit() step {
	answer := new(usualAnswer)
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			v := c.ticket.Verify(c.app())
			tenant, p := c.ticket.Tenant(), c.ticket.Priority()
			s.turns.own(ctx, tenant)
			c.held.shedder, c.held.tenant, c.held.priority = s, tenant, p
			if v == limits.Admitted {
				v = answer.room(&c.held)
			}
			if v != limits.Admitted {
				c.ticket.Leave()
				if v != limits.TooSlow { // which has a line of its own
					if err := s.turns.refuse(ctx, tenant); err != nil {
						return err
					}
				}
				return s.shed(ctx, v, p)
			}
			err := s.turns.begin(ctx, tenant, p.Rank(), costOfCall)
			if err != nil {
				return err
			}
			if err = next(ctx, c); err == nil {
				answer.note(tenant, c.held.out)
			}
			return err
		}
	}
}

// app is what limits know of the call's app.
func (c *Call) app() limits.App {
	p := c.Principal
	if p == nil {
		return limits.App{}
	}
	a := limits.App{ID: p.App, Weight: p.Weight}
	if p.Priority != "" {
		a.Raise = limits.Raise(p.Priority)
	}
	return a
}

// shed refuses a call, which must have left.
func (s *shedder) shed(ctx context.Context, v limits.Verdict, p limits.Priority) error {
	s.count(v, p)
	if v == limits.TooSlow {
		if err := s.line.wait(ctx); err != nil {
			return err
		}
	}
	return errOverloaded
}

func (s *shedder) count(v limits.Verdict, p limits.Priority) {
	s.counters[v][p].Inc()
	s.totals[v].Add(1)
}

// shedLogInterval is how often the log says that calls are shed, while they are.
const shedLogInterval = 10 * time.Second

// waitsOfCall is how often a call waits until it is run, more or less. What it waits
// for its turn it does not wait then: without turns it would have been some of each.
const waitsOfCall = 10

// run measures the load, and adjusts what is admitted to it, until ctx ends.
func (s *shedder) run(ctx context.Context, log *slog.Logger) {
	cpu, queue := load.NewCPU(), load.NewQueue()
	tick := time.NewTicker(limits.Tick)
	defer tick.Stop()
	var probing sync.WaitGroup
	probing.Go(func() { s.turns.probe(ctx, s.overload.InFlight) })
	defer probing.Wait()
	last := time.Now()
	var told shedLog
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		delay := max(queue.Mean(), s.turns.delay()/waitsOfCall)
		s.overload.Adjust(limits.Load{Elapsed: now.Sub(last), CPU: cpu.Share(), QueueDelay: delay})
		last = now
		status := s.overload.Status()
		s.metrics.CPU.Set(status.CPU)
		s.metrics.QueueDelay.Set(status.QueueDelay.Seconds())
		s.metrics.Admitted.Set(status.Admitted)
		if now.Sub(told.at) < shedLogInterval {
			continue
		}
		if counts := told.take(&s.totals); len(counts) > 0 {
			told.at = now
			log.LogAttrs(ctx, slog.LevelWarn, "calls are shed: there are more than can be served", append(counts,
				slog.Int("in_flight", status.InFlight), slog.Int("max_calls", s.maxCalls),
				slog.Float64("cpu", status.CPU), slog.Duration("queue_delay", status.QueueDelay), slog.Float64("admitted", status.Admitted))...)
		}
	}
}

// shedLog is what the log has been told of shed calls, and when.
type shedLog struct {
	told [limits.Verdicts]uint64
	at   time.Time
}

// take gives how many calls were shed since, by reason and all; nothing for none.
func (l *shedLog) take(totals *[limits.Verdicts]atomic.Uint64) []slog.Attr {
	var counts []slog.Attr
	sum := uint64(0)
	for v := limits.Admitted + 1; v < limits.Verdicts; v++ {
		total := totals[v].Load()
		if n := total - l.told[v]; n > 0 {
			sum += n
			counts = append(counts, slog.Uint64("shed_"+v.String(), n))
		}
		l.told[v] = total
	}
	if sum == 0 {
		return nil
	}
	return append(counts, slog.Uint64("shed", sum))
}

// Overload tells what load the gateway is under, and what share of its calls it
// admits.
func (g *Gateway) Overload() limits.Status {
	if g.shedder == nil {
		return limits.Status{Admitted: 1}
	}
	return g.shedder.overload.Status()
}

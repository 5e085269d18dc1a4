package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

// Limiter gives the allowances of rates and quotas.
type Limiter interface {
	// Now is the time for allowances.
	Now() time.Duration
	// Find gives the allowance of a limit, with these numbers from now on.
	Find(key limits.Key, spec limits.Spec) *limits.Allowance
}

// limiter is the step that keeps rates and quotas.
type limiter struct {
	from     Limiter
	cfg      config.Limiting
	counters map[string]*decisionCounters // by limits.Key.Kind
	found    *memo
}

func newLimiter(from Limiter, cfg config.Limiting, reg prometheus.Registerer) *limiter {
	if from == nil {
		return nil
	}
	l := &limiter{from: from, cfg: cfg, counters: map[string]*decisionCounters{}, found: newMemo()}
	decisions := telemetry.NewLimits(reg)
	for _, key := range []limits.Key{{Whose: limits.OfApp}, {Whose: limits.OfToken}, {Whose: limits.OfRoute}, {Period: limits.Daily}, {Period: limits.Monthly}} {
		counters := new(decisionCounters)
		for d := range counters {
			counters[d] = decisions.Decision(key.Kind(), limits.Decision(d).String())
		}
		l.counters[key.Kind()] = counters
	}
	return l
}

// decisionCounters are by limits.Decision.
type decisionCounters [limits.Decisions]prometheus.Counter

// callLimits are the limits that one principal's calls of a route have to keep.
type callLimits struct {
	each     []callLimit // none: the calls have no limit
	policies []string    // RateLimit-Policy; not to be changed
}

type callLimit struct {
	*limits.Allowance

	key     limits.Key
	spec    limits.Spec
	counted *decisionCounters
}

// limited is what a call was granted by; its zero value is one without limits.
type limited struct {
	by   *callLimits
	from Limiter
}

// limit is the step of a route. It is nil where no call of the route can have a
// limit.
func (l *limiter) limit(r *routes.Route) step {
	own := limits.Counted(&r.Limits)
	if r.AuthNone && !own {
		return nil
	}
	all := own || limits.Counted(&l.cfg.App) || limits.Counted(&l.cfg.Token)
	var route *routes.Route
	if own {
		route = r
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			p := c.Principal
			if !all && !limits.Counted(&p.AppLimits) && !limits.Counted(&p.TokenLimits) {
				return next(ctx, c)
			}
			key := memoKey{p, route}
			by := l.found.get(key)
			if by == nil || by.retired() {
				by = l.of(p, r)
				l.found.put(key, by)
			}
			if len(by.each) == 0 {
				return next(ctx, c)
			}
			if err := l.take(c, by); err != nil {
				return err
			}
			return next(ctx, c)
		}
	}
}

// of finds the limits of a principal's calls. Routes without a credential have
// their own alone, which all their callers share.
func (l *limiter) of(p *auth.Principal, r *routes.Route) *callLimits {
	by := new(callLimits)
	add := func(key limits.Key, l2 config.Limits) {
		limits.Each(l2, func(period limits.Period, spec limits.Spec) {
			key.Period = period
			by.each = append(by.each, callLimit{
				Allowance: l.from.Find(key, spec), key: key, spec: spec, counted: l.counters[key.Kind()],
			})
		})
	}
	app := ""
	if p != nil {
		app = strings.Clone(p.App)
		add(limits.Key{App: app, Whose: limits.OfApp}, limits.Or(p.AppLimits, l.cfg.App))
		add(limits.Key{App: app, Whose: limits.OfToken, Name: strings.Clone(p.TokenID)}, limits.Or(p.TokenLimits, l.cfg.Token))
	}
	add(limits.Key{App: app, Whose: limits.OfRoute, Name: strings.TrimPrefix(r.FullMethod, "/")}, r.Limits)
	if l.cfg.Headers && len(by.each) > 0 {
		by.policies = []string{policyText(by.each)}
	}
	return by
}

// retired tells whether one of the allowances was given up, to make room.
func (b *callLimits) retired() bool {
	for i := range b.each {
		if b.each[i].Retired() {
			return true
		}
	}
	return false
}

// take takes the call from all its limits, or from none.
func (l *limiter) take(c *Call, by *callLimits) error {
	now := l.from.Now()
	if l.cfg.Headers {
		c.limited = limited{by, l.from}
	}
	for i := range by.each { // so that what one of them refuses costs the others nothing
		if d := by.each[i].May(now); d >= limits.Exhausted {
			return l.refuse(c, by, i, d, now)
		}
	}
	var taken uint16 // a bit for each: there are nine at most
	for i := range by.each {
		switch d := by.each[i].Take(now); d {
		case limits.Granted:
			taken |= 1 << i
		case limits.Uncounted:
			by.each[i].counted[d].Inc()
		default:
			for j := range i {
				if taken&(1<<j) != 0 {
					by.each[j].Undo()
				}
			}
			return l.refuse(c, by, i, d, now)
		}
	}
	for i := range by.each {
		if taken&(1<<i) != 0 {
			by.each[i].counted[limits.Granted].Inc()
		}
	}
	return nil
}

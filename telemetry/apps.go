package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits/keyed"
)

// AppOutcome is how a call came out, as its app sees it.
type AppOutcome uint8

// The outcomes: a success, or through whom the call failed.
const (
	AppSuccess AppOutcome = iota
	AppCaller
	AppGateway
	AppBackend

	appOutcomes = iota
)

var appOutcomeNames = [appOutcomes]string{"success", "caller", "gateway", "backend"}

// AppLimit is what a call was refused by, or ended by.
type AppLimit uint8

// The limits. AppUnlimited: none of them.
const (
	AppUnlimited AppLimit = iota
	AppRate
	AppConcurrency
	AppStreams
	AppStreamLifetime
	AppBody
	AppOverload

	appLimits = iota
)

var appLimitNames = [appLimits]string{"", "rate", "concurrency", "streams", "stream_lifetime", "body", "overload"}

// OtherApps is the label of the apps that have no series of their own.
const OtherApps = "other"

const (
	// maxRanked is how many apps are watched at once for who has the most calls.
	maxRanked = 1 << 15
	// rankInterval is how often it is looked which apps have the most calls.
	rankInterval = 10 * time.Second
	// faded is what is left of an app's calls after each interval: some five of
	// them count.
	faded = 0.8
	// staying is how much more calls somebody else must have than an app with
	// series to take its place, so that two of a size do not take turns.
	staying = 1.3
)

// Apps counts calls by app, for the apps that config names and for those with
// the most calls. However many apps there are, so many series there are at most;
// those of an app that has fallen behind are deleted.
type Apps struct {
	calls   *prometheus.CounterVec
	refused *prometheus.CounterVec

	named map[string]*appSeries // not changed once it is made
	other *appSeries
	most  int                                   // how many others have series
	top   atomic.Pointer[map[string]*appSeries] // not changed once it is there
	seen  *keyed.Table[string, ranked]          // nil: nobody has series but the named
}

// appSeries are all series of an app. They are made at once: one that was made
// when it is first needed could come back after it was deleted.
type appSeries struct {
	calls   [appOutcomes]prometheus.Counter
	refused [appLimits]prometheus.Counter // that of AppUnlimited is nil
}

// ranked is what is known of an app that has no certain series.
type ranked struct {
	calls atomic.Int64 // since the last ranking
	score float64      // by rank alone
}

// NewApps registers rpcgate_app_calls_total and rpcgate_app_refused_total. A nil
// reg leaves them unregistered.
func NewApps(reg prometheus.Registerer, cfg config.Metrics) *Apps {
	a := &Apps{
		calls: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_app_calls_total",
			Help: "Calls of apps that ended, by outcome: success, or through whom they failed: caller, gateway or backend. app is other for all apps that metrics.apps does not name and that are not among those with the most calls.",
		}, []string{"app", "outcome"})),
		refused: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_app_refused_total",
			Help: "Calls of apps that a limit refused or ended, by limit: rate (and quotas), concurrency, streams, stream_lifetime, body or overload. They are among rpcgate_app_calls_total.",
		}, []string{"app", "limit"})),
		named: make(map[string]*appSeries, len(cfg.Apps)),
		most:  cfg.TopApps,
	}
	a.other = a.series(OtherApps)
	for _, app := range cfg.Apps {
		a.named[app] = a.series(app)
	}
	a.top.Store(new(map[string]*appSeries))
	if a.most > 0 {
		a.seen = keyed.New[string, ranked](maxRanked)
	}
	return a
}

func (a *Apps) series(app string) *appSeries {
	s := new(appSeries)
	for o, name := range appOutcomeNames {
		s.calls[o] = a.calls.WithLabelValues(app, name)
	}
	for l, name := range appLimitNames {
		if AppLimit(l) != AppUnlimited {
			s.refused[l] = a.refused.WithLabelValues(app, name)
		}
	}
	return s
}

// Count counts a call that ended. app is one that was verified.
func (a *Apps) Count(app string, outcome AppOutcome, limit AppLimit) {
	s, ok := a.named[app]
	if !ok {
		if s, ok = (*a.top.Load())[app]; !ok {
			s = a.other
		}
		if a.seen != nil {
			a.rank(app)
		}
	}
	s.calls[outcome].Inc()
	if limit != AppUnlimited {
		s.refused[limit].Inc()
	}
}

func (a *Apps) rank(app string) {
	r := a.seen.Get(app)
	if r == nil {
		if r = a.seen.Put(app); r == nil {
			return // it may come when some have left
		}
	}
	r.calls.Add(1)
}

// Run keeps to the apps with the most calls, until ctx ends.
func (a *Apps) Run(ctx context.Context) {
	if a.seen == nil {
		return
	}
	tick := time.NewTicker(rankInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.choose()
		}
	}
}

type contender struct {
	app   string
	score float64
}

// choose gives series to the apps with the most calls, and takes them from the
// others.
func (a *Apps) choose() {
	was := *a.top.Load()
	var all []contender
	a.seen.Sweep(func(app string, r *ranked) bool {
		r.score = faded*r.score + float64(r.calls.Swap(0))
		if r.score < 0.5 {
			return false // a call that is counted there just now is not missed
		}
		c := contender{app, r.score}
		if was[app] != nil {
			c.score *= staying
		}
		all = append(all, c)
		return true
	})
	slices.SortFunc(all, func(a, b contender) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.app, b.app)
	})
	is := make(map[string]*appSeries, a.most)
	for _, c := range all[:min(a.most, len(all))] {
		if is[c.app] = was[c.app]; is[c.app] == nil && c.app != OtherApps {
			is[c.app] = a.series(c.app)
		}
	}
	delete(is, OtherApps) // an app of that name is one of them
	a.top.Store(&is)
	for app := range was {
		if is[app] == nil {
			a.calls.DeletePartialMatch(prometheus.Labels{"app": app})
			a.refused.DeletePartialMatch(prometheus.Labels{"app": app})
		}
	}
}

package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Options is what a [Group] needs besides its configuration.
type Options struct {
	// Told of each change of a state, after the fact, with no lock held; it must
	// not block. nil: nobody is. In scope app it is told as often as apps'
	// breakers change: what writes it down must be bounded.
	OnChange func(Change)
}

// Group is the breakers of one method of one backend. It is safe for use by
// many goroutines.
//
// In scope method one circuit guards everybody's calls. Beside it an app that
// got [Exhausted] has one of its own, for that alone, as long as there is
// anything to remember of it: while no app ever got it, that costs nothing.
//
// In scope app each app has a circuit, and there is none for all.
type Group struct {
	cfg     config.Breaker
	perApp  bool
	epoch   time.Time
	stripes *stripes
	note    func(Change)

	shared    atomic.Pointer[shared] // nil in scope app, and where breakers are off
	apps      *appTable
	overrides atomic.Pointer[overrides] // nil while nothing is forced
	swept     atomic.Int64              // when apps were last swept

	mu sync.Mutex // for changing apps, overrides and shared
}

// shared is everybody's circuit.
type shared struct{ circuit circuit }

// New makes the breakers that the configuration asks for.
func New(cfg config.Breaker, o Options) (*Group, error) {
	if o.OnChange == nil {
		o.OnChange = func(Change) {}
	}
	g := &Group{
		cfg: cfg, perApp: cfg.Scope == "app", epoch: time.Now(), stripes: newStripes(), note: o.OnChange, apps: newAppTable(),
	}
	c, err := newCircuit(cfg, g.stripes, g.note, 0)
	if err != nil {
		return nil, err
	}
	if c != nil && !g.perApp {
		g.shared.Store(&shared{c})
	}
	return g, nil
}

// now is the time since the group's epoch.
func (g *Group) now() time.Duration { return time.Since(g.epoch) }

// Allow lets a call of an app through, whose outcome must be reported with
// [Pass.Done], or refuses it with an *[OpenError].
func (g *Group) Allow(app string) (Pass, error) {
	if g.overrides.Load() != nil {
		if f := g.forced(app); f != nil {
			if f.State == Open {
				return Pass{}, refuseForced(f, g.forcedForApp(app))
			}
			return Pass{}, nil
		}
	}
	if g.cfg.Kind == "off" {
		return Pass{}, nil
	}
	now := g.now()
	pass := Pass{group: g, app: app}
	own := g.apps.get(app, now)
	if own == nil && g.perApp {
		own = g.addApp(app, now)
	}
	if own != nil {
		g.sweep(now)
		var retryAfter time.Duration
		if pass.own, retryAfter = own.allow(now); retryAfter > 0 {
			return Pass{}, &OpenError{RetryAfter: retryAfter, AppOnly: true}
		}
	}
	if s := g.shared.Load(); s != nil {
		var retryAfter time.Duration
		if pass.all, retryAfter = s.circuit.allow(now); retryAfter > 0 {
			pass.own.report(Ignored, "", now) // should it be a probe, another may be
			return Pass{}, &OpenError{RetryAfter: retryAfter}
		}
	}
	return pass, nil
}

func (g *Group) forcedForApp(app string) bool {
	o := g.overrides.Load()
	return o != nil && o.apps[app] != nil
}

// addApp gives an app a circuit of its own, unless it has one by now.
func (g *Group) addApp(app string, now time.Duration) circuit {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.apps.get(app, now); c != nil {
		return c
	}
	c, err := newCircuit(g.cfg, g.stripes, func(change Change) {
		change.App, change.AppOnly = app, true
		g.note(change)
	}, now)
	if err != nil {
		return nil // New has refused such a configuration
	}
	g.apps.putLocked(app, c, now)
	return c
}

// exhausted gives an app that has used up what it has a circuit of its own.
func (g *Group) exhausted(app string, now time.Duration) ticket {
	c := g.addApp(app, now)
	if c == nil {
		return ticket{}
	}
	t, _ := c.allow(now)
	return t
}

// sweep forgets, now and then, the apps that nothing need be remembered of.
func (g *Group) sweep(now time.Duration) {
	last := g.swept.Load()
	if int64(now)-last < int64(sweepInterval) || !g.swept.CompareAndSwap(last, int64(now)) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweepLocked(now)
}

func (g *Group) sweepLocked(now time.Duration) {
	var kept time.Duration
	if g.perApp {
		kept = max(g.cfg.Adaptive.Window, g.cfg.Threshold.Interval) + recency
	}
	g.apps.sweepLocked(now, kept)
}

// renewLocked makes all circuits anew, with nothing counted.
func (g *Group) renewLocked() {
	for _, e := range g.apps.allLocked() {
		g.apps.removeLocked(e)
	}
	if g.shared.Load() == nil {
		return
	}
	if c, err := newCircuit(g.cfg, g.stripes, g.note, g.now()); err == nil && c != nil {
		g.shared.Store(&shared{c})
	}
}

// State is how much of everybody's calls is refused; in scope app, of the calls
// of the app that fares worst. It is for metrics, and changes nothing.
func (g *Group) State() State {
	if o := g.overrides.Load(); o != nil && o.all != nil {
		if f := o.all; f.Until.IsZero() || time.Now().Before(f.Until) {
			return f.State
		}
	}
	if s := g.shared.Load(); s != nil {
		return s.circuit.state(g.now())
	}
	worst := Closed
	now := g.now()
	for _, e := range g.entries() {
		worst = max(worst, e.circuit.state(now))
	}
	return worst
}

// OpenApps counts the apps whose own circuit is not closed, or is forced open.
func (g *Group) OpenApps() (n int) {
	now := g.now()
	for _, e := range g.entries() {
		if e.circuit.state(now) != Closed {
			n++
		}
	}
	if o := g.overrides.Load(); o != nil {
		for _, f := range o.apps {
			if f.State == Open && (f.Until.IsZero() || time.Now().Before(f.Until)) {
				n++
			}
		}
	}
	return n
}

func (g *Group) entries() []*appEntry {
	if g.apps.size.Load() == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.apps.allLocked()
}

// Views shows the group's breakers: everybody's, and those of apps that there is
// anything to tell of. Apps are in no order.
func (g *Group) Views() []View {
	g.liftExpired()
	now := g.now()
	var views []View
	o := g.overrides.Load()
	if o == nil {
		o = &overrides{}
	}
	switch s := g.shared.Load(); {
	case s != nil:
		views = append(views, g.show(s.circuit.view(now), o.all))
	case o.all != nil || !g.perApp:
		views = append(views, g.show(view{}, o.all))
	}
	seen := map[string]bool{}
	for _, e := range g.entries() {
		v := e.circuit.view(now)
		if v.state == Closed && v.window.Failures == 0 && o.apps[e.app] == nil {
			continue
		}
		seen[e.app] = true
		shown := g.show(v, o.apps[e.app])
		shown.App, shown.AppOnly = e.app, true
		views = append(views, shown)
	}
	for app, f := range o.apps {
		if !seen[app] {
			shown := g.show(view{}, f)
			shown.App, shown.AppOnly = app, true
			views = append(views, shown)
		}
	}
	return views
}

func (g *Group) show(v view, f *Forced) View {
	shown := View{
		State: v.state, Since: g.epoch.Add(v.since), Refused: v.refused, Window: v.window, WindowLength: v.length,
		Opening: v.opening, Forced: f,
	}
	if v.failure != nil {
		shown.LastFailure = &LastFailure{Why: v.failure.why, At: g.epoch.Add(v.failure.at)}
	}
	if v.state != Closed {
		shown.NextProbe = g.epoch.Add(v.nextProbe)
	}
	if f != nil {
		shown.State, shown.Since, shown.NextProbe, shown.Refused, shown.Opening = f.State, f.Since, time.Time{}, 0, nil
		if f.State == Open {
			shown.NextProbe, shown.Refused = f.Until, 1
		}
	}
	return shown
}

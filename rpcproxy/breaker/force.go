package breaker

import (
	"errors"
	"maps"
	"time"
)

// Forced is an operator's word on a breaker, which goes before what the breaker
// itself would do.
type Forced struct {
	// Open or Closed.
	State State
	// Who said it.
	By string
	// Until when it holds; zero: until it is lifted.
	Until time.Time
	// When it was said; set by [Group.Force].
	Since time.Time
}

// maxForced bounds the apps of one method that breakers are forced for.
const maxForced = 100

// forcedRetryAfter is when callers may try again at the latest where an operator
// keeps them out: nobody knows when that ends.
const forcedRetryAfter = 30 * time.Second

// ErrTooManyForced says that breakers are forced for as many apps as may be.
var ErrTooManyForced = errors.New("breakers of too many apps are forced already: lift some first")

// errForcedState says what can be forced.
var errForcedState = errors.New("a breaker can be forced open or closed")

// overrides are the operator's words on one method, immutable.
type overrides struct {
	all  *Forced // on the method, whosever calls
	apps map[string]*Forced
}

// of is the word on an app's calls: that on the app, or else that on all.
func (o *overrides) of(app string) *Forced {
	if f := o.apps[app]; f != nil {
		return f
	}
	return o.all
}

// Force makes the group's breakers open or closed, for one app's calls or, where
// all is set, for everybody's but of those apps that there is a word on of their
// own. It holds until f.Until or until Force is called with nil. What comes
// after it begins anew, with nothing counted: while calls are let through by
// force, or none are, nothing is.
func (g *Group) Force(app string, all bool, f *Forced) error {
	if f != nil {
		if f.State != Open && f.State != Closed {
			return errForcedState
		}
		said := *f
		said.Since = time.Now()
		f = &said
	}
	g.mu.Lock()
	err := g.forceLocked(app, all, f)
	g.mu.Unlock()
	if err == nil {
		g.note(forcedChange(app, all, f))
	}
	return err
}

func forcedChange(app string, all bool, f *Forced) Change {
	c := Change{App: app, AppOnly: !all, Forced: f, Lifted: f == nil}
	if f != nil {
		c.To = f.State
	}
	return c
}

func (g *Group) forceLocked(app string, all bool, f *Forced) error {
	next := &overrides{apps: map[string]*Forced{}}
	if o := g.overrides.Load(); o != nil {
		next.all, next.apps = o.all, maps.Clone(o.apps)
	}
	switch {
	case all:
		next.all = f
		g.renewLocked()
	case f == nil:
		delete(next.apps, app)
		g.apps.dropLocked(app)
	default:
		if next.apps[app] == nil && len(next.apps) >= maxForced {
			return ErrTooManyForced
		}
		next.apps[app] = f
		g.apps.dropLocked(app)
	}
	if next.all == nil && len(next.apps) == 0 {
		next = nil
	}
	g.overrides.Store(next)
	return nil
}

// forced is the word that holds for an app's calls now, if any.
func (g *Group) forced(app string) *Forced {
	for {
		o := g.overrides.Load()
		if o == nil {
			return nil
		}
		f := o.of(app)
		if f == nil || f.Until.IsZero() || time.Now().Before(f.Until) {
			return f
		}
		g.lift(app, o.apps[app] != f, f)
	}
}

// CheckForced refuses the calls that an operator keeps out, with an *[OpenError],
// and no others: for calls that say nothing about the method.
func (g *Group) CheckForced(app string) error {
	if f := g.forced(app); f != nil && f.State == Open {
		return refuseForced(f, g.forcedForApp(app))
	}
	return nil
}

// lift ends a word whose time is up, unless another has taken its place.
func (g *Group) lift(app string, all bool, f *Forced) {
	g.mu.Lock()
	o := g.overrides.Load()
	held := o != nil && (all && o.all == f || !all && o.apps[app] == f)
	if held {
		_ = g.forceLocked(app, all, nil) // taking one away cannot fail
	}
	g.mu.Unlock()
	if held {
		g.note(forcedChange(app, all, nil))
	}
}

// liftExpired ends the words whose time is up, though no call has come since.
func (g *Group) liftExpired() {
	o := g.overrides.Load()
	if o == nil {
		return
	}
	for app, f := range o.apps {
		if !f.Until.IsZero() && !time.Now().Before(f.Until) {
			g.lift(app, false, f)
		}
	}
	if f := o.all; f != nil && !f.Until.IsZero() && !time.Now().Before(f.Until) {
		g.lift("", true, f)
	}
}

// refuseForced is the refusal of a call that an operator keeps out.
func refuseForced(f *Forced, appOnly bool) *OpenError {
	e := &OpenError{RetryAfter: forcedRetryAfter, AppOnly: appOnly, Forced: f}
	if !f.Until.IsZero() {
		e.RetryAfter = max(time.Millisecond, min(forcedRetryAfter, time.Until(f.Until)))
	}
	return e
}

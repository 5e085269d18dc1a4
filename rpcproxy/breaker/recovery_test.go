package breaker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/breaker"
)

// load is steady calls of one app, each of which takes a while.
type load struct {
	group   *breaker.Group
	tick    time.Duration // between two calls
	latency time.Duration // of each
	pending []pendingCall // in the order in which they end
}

type pendingCall struct {
	pass breaker.Pass
	ends time.Time
}

// run calls for a time, and tells of each call whether it was let through. A
// call has the outcome that the backend has for calls at its end.
func (l *load) run(d time.Duration, o breaker.Outcome, each func(at time.Duration, passed bool)) {
	for start := time.Now(); time.Since(start) < d; time.Sleep(l.tick) {
		for len(l.pending) > 0 && !time.Now().Before(l.pending[0].ends) {
			l.pending[0].pass.Done(o, "SICK")
			l.pending = l.pending[1:]
		}
		pass, err := l.group.Allow("acme")
		each(time.Since(start), err == nil)
		switch {
		case err != nil:
		case l.latency == 0:
			pass.Done(o, "SICK")
		default:
			l.pending = append(l.pending, pendingCall{pass: pass, ends: time.Now().Add(l.latency)})
		}
	}
}

// The backend is dead for a while and then well again, under steady load: no
// call of which succeeds, and then each. All calls pass again within seconds,
// whatever the load, though the callers never stopped calling.
func TestRecovery(t *testing.T) {
	type recovery struct {
		perSecond int
		latency   time.Duration
		leaked    float64       // the greatest share of calls let through while dead
		recovered time.Duration // all calls pass from here on
	}
	kinds := map[string]struct {
		cfg        config.Breaker
		recoveries []recovery
	}{
		"adaptive": {adaptiveConfig(), []recovery{
			{perSecond: 10, leaked: 0.35, recovered: 10 * time.Second},
			{perSecond: 100, leaked: 0.08, recovered: 8 * time.Second},
			{perSecond: 1000, leaked: 0.012, recovered: 8 * time.Second},
			{perSecond: 1000, latency: 100 * time.Millisecond, leaked: 0.01, recovered: 8 * time.Second},
			{perSecond: 10_000, leaked: 0.001, recovered: 8 * time.Second},
			{perSecond: 10_000, latency: 100 * time.Millisecond, leaked: 0.002, recovered: 9 * time.Second},
		}},
		"threshold": {thresholdConfig(nil), []recovery{
			{perSecond: 10, leaked: 0.05, recovered: 6 * time.Second},
			{perSecond: 1000, leaked: 0.001, recovered: 6 * time.Second},
			{perSecond: 10_000, leaked: 0.0001, recovered: 6 * time.Second},
			{perSecond: 10_000, latency: 100 * time.Millisecond, leaked: 0.0001, recovered: 6 * time.Second},
		}},
	}
	for kind, of := range kinds {
		for _, scope := range []string{"method", "app"} {
			for _, tt := range of.recoveries {
				if scope == "app" && tt.perSecond < 10_000 {
					continue // the circuits are the same
				}
				t.Run(fmt.Sprintf("%s, scope %s, %d per second of %v", kind, scope, tt.perSecond, tt.latency), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						cfg := of.cfg
						cfg.Scope = scope
						l := &load{group: mustNew(t, cfg), tick: time.Second / time.Duration(tt.perSecond), latency: tt.latency}
						l.run(12*time.Second, breaker.Success, func(_ time.Duration, passed bool) {
							if !passed {
								t.Fatal("a call to the healthy backend was refused")
							}
						})
						passed, total := 0, 0
						l.run(40*time.Second, breaker.Failure, func(at time.Duration, ok bool) {
							if at < 15*time.Second {
								return // the good calls leave the window
							}
							total++
							if ok {
								passed++
							}
						})
						leaked := float64(passed) / float64(total)
						var last time.Duration
						l.run(15*time.Second, breaker.Success, func(at time.Duration, ok bool) {
							if !ok {
								last = at
							}
						})
						t.Logf("%.4f%% passed while dead; last refusal %v after recovery", leaked*100, last)
						if leaked > tt.leaked {
							t.Errorf("%v of the calls passed while the backend was dead, want at most %v", leaked, tt.leaked)
						}
						if last > tt.recovered {
							t.Errorf("still refusing %v after the recovery, want at most %v", last, tt.recovered)
						}
					})
				})
			}
		}
	}
}

package integration_test

import (
	"testing"
	"time"
)

// Faults of one endpoint of three, and the figure that each must reach. They are
// listed in docs/faults.md.

// swift has an endpoint that does not answer left in time.
const swift = lively + `
	retry: {max_attempts: 3, attempt_timeout: 300ms, budget: {min_per_second: 20}}`

// lively is for faults that show by themselves.
const lively = `
	timeout: 5s
	ejection: {consecutive_failures: 3, base_time: 500ms, max_time: 1s}
	balancer: {slow_start: 0s}
	conn: {connect_timeout: 1s, max_backoff: 500ms}`

// kill -9: no call that may be repeated is lost; of those that may not, only
// what was under way there; none is executed twice. The endpoint has calls again
// once it is back.
func TestEndpointKilled(t *testing.T) {
	t.Parallel()
	r := beforeLedgers(t, startLedgers(t, 3, "--work", "5ms"), lively)
	repeatable := startLoad(t, 4, r.looking(), r.lookingJSON())
	others := startLoad(t, 4, r.booking())
	for _, victim := range r.backends[:2] {
		victim.Kill()
		repeatable.awaitMore(200)
		victim.Again()
		awaitCalled(t, victim, 20)
	}
	repeatable.stop()
	others.stop()
	onlyFailed(t, repeatable, others, 8) // four callers, twice
	r.executedOnce(t)
}

// SIGSTOP: no call that may be repeated is lost, and few wait for an attempt's
// time to run out: those that were there, and those that it takes to eject the
// endpoint or try it again. After SIGCONT it has calls again.
func TestEndpointPaused(t *testing.T) {
	t.Parallel()
	r := beforeLedgers(t, startLedgers(t, 3), swift)
	callers := startLoad(t, 8, r.looking())
	victim := r.backends[0]
	awaitCalled(t, victim, 20)
	r.since()
	victim.Pause()
	stays(t, 3*time.Second, callers.unharmed)
	victim.Resume()
	awaitCalled(t, victim, 20)
	callers.stop()
	callers.only()
	fewWaited(t, r)
}

// fewWaited checks that of the calls since it was last asked fewer than a tenth
// waited until the time of an attempt of [swift] had run out, where a third of all
// endpoints does not answer, and that none waited longer than it has attempts.
func fewWaited(t *testing.T, r *ledgerRig) {
	t.Helper()
	const attempt = 300 * time.Millisecond
	times, _ := r.since()
	if slow := slowerThan(times, attempt-10*time.Millisecond); slow > len(times)/10 {
		t.Errorf("%d of %d calls waited for an endpoint that does not answer", slow, len(times))
	}
	if slowest := percentile(times, 1); slowest > 3*attempt+slack {
		t.Errorf("a call took %v, an attempt has %v", slowest, attempt)
	}
}

// A backend that listens and does not serve yet takes no calls: none is lost,
// and none waits for it.
func TestEndpointStartsSlowly(t *testing.T) {
	t.Parallel()
	backends := startLedgers(t, 3)
	late := backends[2]
	late.Kill()
	r := beforeLedgers(t, backends, swift)
	callers := startLoad(t, 4, r.looking())
	late.Launch("--accept-after", "2s")
	began := time.Now()
	awaitCalled(t, late, 20)
	if took := time.Since(began); took < 2*time.Second {
		t.Fatalf("the backend that accepts after 2s served after %v", took)
	}
	callers.stop()
	callers.only()
	if times, _ := r.since(); percentile(times, 1) > slack {
		t.Errorf("a call took %v, though two endpoints served all the time", percentile(times, 1))
	}
}

// All endpoints are restarted one after the other, by SIGTERM: a GOAWAY is all
// that the gateway is told by. No call is lost, whether it may be repeated or
// not, and none is executed twice.
func TestRollingRestartOfEndpoints(t *testing.T) {
	t.Parallel()
	r := beforeLedgers(t, startLedgers(t, 3, "--work", "5ms"), lively)
	callers := startLoad(t, 4, r.looking(), r.lookingJSON(), r.booking())
	for range 2 {
		for _, b := range r.backends {
			if err := b.Terminate(); err != nil {
				t.Fatal(err)
			}
			callers.awaitMore(30)
			b.Again()
			awaitCalled(t, b, 20)
		}
	}
	callers.stop()
	callers.only()
	r.executedOnce(t)
}

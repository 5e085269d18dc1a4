package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Length time.Duration // of the load under faults
	Pace   time.Duration // between the calls of one caller
}

// idle is how long the load without faults takes, before and after.
const idle = time.Second

// Run lets the faults of a seed befall a system under load and checks the
// account.
func Run(tb testing.TB, o Options) {
	tb.Helper()
	schedule := Draw(o.Seed, o.Length)
	tb.Logf("seed %d, %v:\n%s", o.Seed, o.Length, schedule)
	s := start(tb)
	l := newLoad(tb, s)

	calls := l.runFor(idle, o.Pace)
	s.allWell(calls, "before the first fault")
	l.rest()
	before := s.holdings()

	calls = append(calls, s.underFaults(l, schedule, o)...)

	after := l.runFor(idle, o.Pace)
	s.allWell(after, "though all faults are over")
	calls = append(calls, after...)
	l.rest()
	s.awaitNoLeaks(before)
	s.settle(calls)
}

// allWell checks that no call failed, whether it may be repeated or not.
func (s *system) allWell(calls []*call, when string) {
	s.tb.Helper()
	for _, c := range calls {
		if c.err != nil {
			s.tb.Errorf("failed %s: %v", when, c)
		}
	}
}

// underFaults runs the load while the schedule befalls the system.
func (s *system) underFaults(l *load, schedule Schedule, o Options) []*call {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan []*call)
	go func() { ended <- l.run(ctx, o.Pace) }()
	began := time.Now()
	s.befall(schedule)
	pause(o.Length - time.Since(began))
	cancel()
	return <-ended
}

func (l *load) runFor(d, pace time.Duration) []*call {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return l.run(ctx, pace)
}

// rest closes what the callers keep open.
func (l *load) rest() {
	for _, c := range l.clients {
		c.closeIdle()
	}
}

// storiesToTell bounds what a bad run prints.
const storiesToTell = 20

// settle checks the account and tells the story of each violation.
func (s *system) settle(calls []*call) {
	s.tb.Helper()
	var journal []ledger.Execution
	for _, e := range s.endpoints {
		journal = append(journal, e.backend.Journal()...)
	}
	a := newAccount(calls, journal)
	f, broken := a.check()
	s.tb.Log(f)
	for _, line := range reasons(calls) {
		s.tb.Log(line)
	}
	if testing.Verbose() {
		for _, c := range slowest(calls, 3) {
			s.tb.Log("slowest: ", c)
		}
	}
	for i, v := range broken {
		if i == storiesToTell {
			s.tb.Errorf("and %d more", len(broken)-i)
			break
		}
		s.tb.Error(a.story(v, s.said))
	}
}

// said returns the lines of all gateways' logs that have text.
func (s *system) said(text string) []string {
	var lines []string
	for _, g := range s.gateways {
		lines = append(lines, g.said(text)...)
	}
	return lines
}

// eventually waits until ok, and reports whether it came about.
func eventually(ok func() bool) bool {
	deadline := time.Now().Add(gatewaytest.Limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

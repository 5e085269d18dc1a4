package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

// source is where the endpoints of one target are found. Its String completes
// "looking for endpoints of …".
type source interface {
	fmt.Stringer
	// follow tells the whole list, sorted, whenever it may have changed, until ctx
	// ends or the source cannot be asked: that is its error, and it is called again
	// after a pause. hints are gRPC's, that an endpoint failed.
	follow(ctx context.Context, tell func([]endpoint), hints <-chan struct{}) error
}

// pace says how patient a follower is.
type pace struct {
	grace      time.Duration // how long an emptied list is not believed
	minBackoff time.Duration // the pause after a first failure
	maxBackoff time.Duration // the longest pause
}

// defaultPace is as etcd's; see [defaultTimings].
func defaultPace() pace {
	t := defaultTimings()
	return pace{grace: t.grace, minBackoff: t.minBackoff, maxBackoff: t.maxBackoff}
}

// follower is the resolver of one target: it hands to gRPC what a source tells,
// less what is not to be believed yet. While the source cannot be asked, the
// last good endpoints stay.
type follower struct {
	source source
	cc     resolver.ClientConn
	pace   pace
	log    *slog.Logger
	hints  chan struct{}

	cancel context.CancelFunc
	done   chan struct{}

	// Owned by run.
	grace grace
	known bool       // the source was asked with success
	lost  bool       // it cannot be asked at the moment
	told  []endpoint // what gRPC has
}

// startFollower starts the goroutines that Close stops and waits for.
func startFollower(s source, cc resolver.ClientConn, p pace, log *slog.Logger) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{
		source: s, cc: cc, pace: p, log: log.With("source", s.String()), hints: make(chan struct{}, 1),
		cancel: cancel, done: make(chan struct{}), grace: newGrace(p.grace),
	}
	go func() {
		defer close(f.done)
		f.run(ctx)
	}()
	return f
}

// ResolveNow is gRPC's hint that an endpoint failed.
func (f *follower) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case f.hints <- struct{}{}:
	default: // one is waiting already
	}
}

// Close stops the follower and waits for its end.
func (f *follower) Close() {
	f.cancel()
	<-f.done
}

func (f *follower) run(ctx context.Context) {
	lists, failures := make(chan []endpoint), make(chan error)
	var asking sync.WaitGroup
	asking.Go(func() { f.ask(ctx, lists, failures) })
	defer asking.Wait()
	for {
		var expired <-chan time.Time
		if next := f.grace.nextExpiry(); !next.IsZero() && !f.lost {
			expiry := time.NewTimer(time.Until(next))
			defer expiry.Stop() // a held list changes a few times at most
			expired = expiry.C
		}
		select {
		case <-ctx.Done():
			return
		case list := <-lists:
			f.heard(list)
		case err := <-failures:
			f.failed(err)
		case <-expired:
			f.settle(f.grace.last)
		}
	}
}

// ask follows the source, and again after a pause whenever that fails.
func (f *follower) ask(ctx context.Context, lists chan<- []endpoint, failures chan<- error) {
	retry := backoff{min: f.pace.minBackoff, max: f.pace.maxBackoff}
	for {
		started, answered := time.Now(), false
		err := f.source.follow(ctx, func(list []endpoint) {
			answered = true
			select {
			case lists <- list:
			case <-ctx.Done():
			}
		}, f.hints)
		// A source that lists and then fails at once must not be asked without pause.
		if answered && time.Since(started) > f.pace.maxBackoff {
			retry.reset()
		}
		select {
		case failures <- err:
		case <-ctx.Done():
		}
		if !retry.wait(ctx) {
			return
		}
	}
}

func (f *follower) heard(list []endpoint) {
	if f.lost {
		f.log.Info("endpoints are found again")
		f.lost = false
		f.grace.extend(time.Now())
	}
	if len(list) > maxMembers {
		f.log.Warn("more endpoints than are looked at", "count", len(list), "limit", maxMembers)
		list = list[:maxMembers]
	}
	f.settle(list)
}

// settle tells what the source's list comes to, unless it was told already.
func (f *follower) settle(list []endpoint) {
	endpoints := f.grace.settle(list, time.Now())
	if f.known && slices.Equal(f.told, endpoints) {
		return
	}
	f.known, f.told = true, endpoints
	f.log.Info("endpoints changed", "count", len(endpoints))
	// An error is the balancer's; resolving again would not change it.
	_ = f.cc.UpdateState(stateOf(endpoints))
	if len(endpoints) == 0 {
		f.cc.ReportError(fmt.Errorf("no endpoints of %s", f.source))
	}
}

// failed is called when the source cannot be asked. What is known stays.
func (f *follower) failed(err error) {
	if !f.lost {
		f.lost = true
		if f.known {
			f.log.Warn("cannot look for endpoints; the last known ones stay", "error", err)
		} else {
			f.log.Warn("cannot look for endpoints; none are known yet", "error", err)
		}
	}
	if !f.known {
		f.cc.ReportError(fmt.Errorf("looking for endpoints of %s: %w", f.source, err))
	}
}

// sorted sorts endpoints by address and drops all but the first of each.
func sorted(endpoints []endpoint) []endpoint {
	slices.SortFunc(endpoints, byAddress)
	return slices.CompactFunc(endpoints, func(a, b endpoint) bool { return a.address == b.address })
}

package balancer

import (
	"fmt"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// connect has a link's connection made when its turn comes.
func (b *fleetBalancer) connect(l *link) {
	l.endDial()
	l.dial = b.turns.connect(l.pick.SubConn, l.addresses[0].Addr, b.wanted.Load())
}

// endDial gives up the link's turn, if it has one.
func (l *link) endDial() {
	if l.dial != nil {
		l.dial.End()
		l.dial = nil
	}
}

// want notes that a call waits for a connection: those that are to be made go
// before others that nobody waits for.
func (b *fleetBalancer) want() {
	if b.wanted.Load() || b.wanted.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.order {
		if l.dial != nil {
			l.dial.Hurry()
		}
	}
}

// stuckLocked is why a call need not wait: all connections have yet to be made,
// none is being made, and those of others to the same endpoints fail. What waits
// for its turn may do so for long then, where endpoints do not answer. nil: a
// connection may come.
func (b *fleetBalancer) stuckLocked() error {
	var why string
	for _, l := range b.order {
		if l.state == connectivity.TransientFailure {
			continue
		}
		text, lost := l.endpoint.Lost()
		if !lost || l.dial == nil || !l.dial.Waiting() {
			return nil
		}
		why = text
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("waiting to connect; last error of another connection: %s", why)
}

// stuckInterval is how often it is looked whether calls wait in vain.
const stuckInterval = time.Second

// watchStuck has calls that wait already told when there is nothing to wait for:
// other connections find that out, of which this one hears nothing. It ends when
// connections are waited for no more.
func (b *fleetBalancer) watchStuck() {
	waits := b.turns != nil && b.state == connectivity.Connecting
	switch {
	case !waits && b.look != nil:
		b.look.Stop()
		b.look = nil
	case waits && b.look == nil:
		b.look = time.AfterFunc(stuckInterval, b.lookAgain)
	}
}

func (b *fleetBalancer) lookAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.look == nil {
		return // stopped while it waited for the lock
	}
	if b.stuckLocked() != nil {
		b.cc.UpdateState(balancer.State{ConnectivityState: b.state, Picker: waitingPicker{b}}) // calls ask again
	}
	b.look.Reset(stuckInterval)
}

// waitingPicker is that of a connection none of whose links is ready.
type waitingPicker struct{ b *fleetBalancer }

// Pick implements balancer.Picker.
func (p waitingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.b.want()
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if err := p.b.stuckLocked(); err != nil {
		return balancer.PickResult{}, err
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// failingPicker is that of a connection all of whose links have failed.
type failingPicker struct {
	b   *fleetBalancer
	err error
}

// Pick implements balancer.Picker.
func (p failingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.b.want()
	return balancer.PickResult{}, p.err
}

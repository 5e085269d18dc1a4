package balancer

import (
	"fmt"

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

// stuck is why a call need not wait: all connections have yet to be made,
// none is being made, and those of others to the same endpoints fail. What waits
// for its turn may do so for long then, where endpoints do not answer. nil: a
// connection may come.
func (b *fleetBalancer) stuck() error {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// waitingPicker is that of a connection none of whose links is ready.
type waitingPicker struct{ b *fleetBalancer }

// Pick implements balancer.Picker.
func (p waitingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.b.want()
	if err := p.b.stuck(); err != nil {
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

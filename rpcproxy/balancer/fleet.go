package balancer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// fleetName is the one balancer's name in grpc-go's registry.
const fleetName = "rpcgate"

// fleetBuilder makes the balancers of connections whose resolver's state
// carries a fleet ([WithFleet]).
type fleetBuilder struct{}

func (fleetBuilder) Name() string { return fleetName }

func (fleetBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &fleetBalancer{cc: cc, links: map[*fleet.Endpoint]*link{}, state: connectivity.Connecting}
}

// fleetBalancer keeps one connection to each endpoint of the fleet's that the
// gateway uses, and leaves it to the fleet which one a call takes. grpc-go calls
// its methods, and the listeners of SubConns, one at a time; the end of the
// fleet's opening comes beside them.
//
// How the states of all are summed up is grpc-go's way (balancer/base): ready
// when one is, else connecting when one is; and an endpoint that failed counts as
// failed until it is connected, or else, with all of them down, there would
// always be one that connects, and calls would wait rather than fail.
type fleetBalancer struct {
	cc balancer.ClientConn

	wanted atomic.Bool // a call waits, or has failed, for want of a connection

	mu    sync.Mutex // guards what follows; no pick over a ready connection takes it
	fleet *fleet.Fleet
	turns *turns // nil: connections are made at once

	links map[*fleet.Endpoint]*link
	order []*link // as the resolver has them

	state       connectivity.State
	more        bool        // some are about to be ready
	holding     bool        // calls wait for endpoints of which nothing is known yet
	held        *time.Timer // ends that
	look        *time.Timer // whether calls wait in vain; nil: none do
	resolverErr error       // what the resolver said last, if it was an error
	connErr     error       // why a connection failed, last
}

// UpdateClientConnState implements balancer.Balancer.
func (b *fleetBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	roster := rosterOf(s.ResolverState)
	if roster == nil {
		b.resolverFailed(errors.New("endpoints that are not a fleet's"))
		return balancer.ErrBadResolverState
	}
	b.fleet = roster.fleet
	b.turns = turnsOf(s.ResolverState)
	b.resolverErr = nil
	old := b.order
	b.order = make([]*link, 0, len(roster.endpoints))
	listed := make(map[*link]bool, len(roster.endpoints))
	for i, e := range roster.endpoints {
		l, err := b.link(e, s.ResolverState.Endpoints[i].Addresses)
		if err != nil {
			b.connErr = err
			continue
		}
		b.order = append(b.order, l)
		listed[l] = true
	}
	// Those that left finish their calls.
	for _, l := range old {
		if !listed[l] {
			b.drop(l)
		}
	}
	if len(b.order) == 0 {
		b.resolverFailed(errors.New("produced zero addresses"))
		return balancer.ErrBadResolverState
	}
	if b.state == connectivity.TransientFailure || !slices.Equal(old, b.order) {
		b.update()
	}
	return nil
}

// link is the connection to an endpoint, new if need be.
func (b *fleetBalancer) link(e *fleet.Endpoint, addresses []resolver.Address) (*link, error) {
	if l := b.links[e]; l != nil && slices.EqualFunc(l.addresses, addresses, resolver.Address.Equal) {
		return l, nil
	}
	l := &link{endpoint: e, addresses: addresses, state: connectivity.Idle}
	//nolint:staticcheck // deprecated is to pass several addresses, which an endpoint has only behind a proxy that has
	conn, err := b.cc.NewSubConn(addresses, balancer.NewSubConnOptions{
		StateListener: func(s balancer.SubConnState) { b.changed(l, s) },
	})
	if err != nil {
		return nil, fmt.Errorf("connection to %s: %w", e.Address(), err)
	}
	l.pick = balancer.PickResult{SubConn: conn}
	if b.fleet.Config().Balancer.LoadReports == "per_call" {
		l.pick.Done = reportOf(e)
	}
	b.links[e] = l
	b.connect(l)
	return l, nil
}

// drop lets an endpoint go: its connection is closed when its last call has
// ended.
func (b *fleetBalancer) drop(l *link) {
	b.become(l, connectivity.Shutdown)
	l.pick.SubConn.Shutdown()
	l.endDial()                   // once it is given up indeed
	if b.links[l.endpoint] == l { // or another connection has taken its place
		delete(b.links, l.endpoint)
	}
}

// changed takes in the state of a connection.
func (b *fleetBalancer) changed(l *link, s balancer.SubConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.state == connectivity.Shutdown {
		return
	}
	if s.ConnectivityState != connectivity.Connecting {
		l.endDial() // it is made, or has failed
	}
	if s.ConnectivityState == connectivity.Idle {
		b.connect(l)
	}
	if l.state == connectivity.TransientFailure &&
		(s.ConnectivityState == connectivity.Idle || s.ConnectivityState == connectivity.Connecting) {
		return
	}
	if s.ConnectivityState == connectivity.TransientFailure {
		b.connErr = s.ConnectionError
	}
	before := l.state
	ready := before == connectivity.Ready
	b.become(l, s.ConnectivityState)
	if l.state == connectivity.TransientFailure && before != connectivity.TransientFailure {
		l.endpoint.Unreachable(s.ConnectionError)
	}
	state, more := b.sum()
	if ready == (l.state == connectivity.Ready) && state == b.state && more == b.more && state != connectivity.TransientFailure &&
		b.holding == (b.opening(state) > 0) {
		return // nothing is another for a call
	}
	b.update()
}

// sum is the state of all connections together, and whether more of them are
// about to be ready: those being made to endpoints that others are connected to,
// for who knows of the rest.
func (b *fleetBalancer) sum() (_ connectivity.State, more bool) {
	ready, connecting := false, false
	for _, l := range b.order {
		switch l.state {
		case connectivity.Ready:
			ready = true
		case connectivity.Connecting, connectivity.Idle:
			connecting = true
			more = more || l.endpoint.Connections() > 0
		}
	}
	switch {
	case ready:
		return connectivity.Ready, more
	case connecting:
		return connectivity.Connecting, more
	default:
		return connectivity.TransientFailure, false
	}
}

// update gives the connection its picker.
func (b *fleetBalancer) update() {
	b.state, b.more = b.sum()
	if b.state == connectivity.Ready {
		b.wanted.Store(false)
	}
	wait := b.opening(b.state)
	b.hold(wait)
	b.watchStuck()
	b.cc.UpdateState(balancer.State{ConnectivityState: b.state, Picker: b.picker(wait)})
}

func (b *fleetBalancer) picker(wait time.Duration) balancer.Picker {
	switch b.state {
	case connectivity.Ready:
		p := newPicker(b.fleet, b.order, b.more)
		if wait > 0 {
			return newOpeningPicker(p, wait)
		}
		return p
	case connectivity.Connecting:
		return waitingPicker{b}
	default:
		return failingPicker{b, b.lastErrors()}
	}
}

// lastErrors is why calls fail.
func (b *fleetBalancer) lastErrors() error {
	switch {
	case b.connErr == nil || len(b.order) == 0:
		return fmt.Errorf("last resolver error: %w", b.resolverErr)
	case b.resolverErr == nil:
		return fmt.Errorf("last connection error: %w", b.connErr)
	default:
		return fmt.Errorf("last connection error: %w; last resolver error: %w", b.connErr, b.resolverErr)
	}
}

// ResolverError implements balancer.Balancer. Endpoints that are known go on
// being used.
func (b *fleetBalancer) ResolverError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resolverFailed(err)
}

func (b *fleetBalancer) resolverFailed(err error) {
	b.resolverErr = err
	if state, _ := b.sum(); state == connectivity.TransientFailure {
		b.update()
	}
}

// UpdateSubConnState implements balancer.Balancer; each SubConn has a listener.
func (*fleetBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle implements balancer.Balancer; all connections are made at once.
func (*fleetBalancer) ExitIdle() {}

// Close implements balancer.Balancer.
func (b *fleetBalancer) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(0)
	for _, l := range b.order {
		b.drop(l)
	}
	b.order = nil
	if b.look != nil {
		b.look.Stop()
		b.look = nil
	}
}

// link is the connection to an endpoint.
type link struct {
	endpoint  *fleet.Endpoint
	addresses []resolver.Address
	state     connectivity.State // Shutdown: it was dropped
	pick      balancer.PickResult
	dial      *fleet.Dial // from when it is to be connected until it is, or fails
	watches   watches     // while it is ready
}

// become tells the endpoint when the connection is ready, and when it is no
// more; and when it does not fail any more.
func (b *fleetBalancer) become(l *link, s connectivity.State) {
	before := l.state
	l.state = s
	if before == connectivity.TransientFailure && s != connectivity.TransientFailure {
		l.endpoint.Reachable()
	}
	switch {
	case before != connectivity.Ready && s == connectivity.Ready:
		l.endpoint.Connected()
		l.watches = watch(b.fleet, l.endpoint, l.pick.SubConn)
	case before == connectivity.Ready && s != connectivity.Ready:
		l.endpoint.Disconnected()
		l.watches.end()
	}
}

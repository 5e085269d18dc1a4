package balancer

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// pickFirstName is the name of what wraps pick_first in grpc-go's registry.
const pickFirstName = "rpcgate_pick_first"

// pickFirstBuilder makes balancers that are grpc-go's pick_first, but that wait
// for their turn before they connect, as the fleet's balancer does.
type pickFirstBuilder struct{ balancer.Builder }

func (pickFirstBuilder) Name() string { return pickFirstName }

// ParseConfig implements balancer.ConfigParser.
func (b pickFirstBuilder) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	parser, ok := b.Builder.(balancer.ConfigParser)
	if !ok {
		return nil, errors.New("pick_first takes no configuration")
	}
	return parser.ParseConfig(text)
}

func (b pickFirstBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	patient := &patientClientConn{ClientConn: cc, conns: map[*patientConn]struct{}{}}
	return &patientBalancer{b.Builder.Build(patient, o), patient}
}

// patientBalancer is a balancer whose connections wait for their turn.
type patientBalancer struct {
	balancer.Balancer

	cc *patientClientConn
}

// UpdateClientConnState implements balancer.Balancer.
func (b *patientBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	b.cc.turns.Store(turnsOf(s.ResolverState))
	return b.Balancer.UpdateClientConnState(s)
}

// Close implements balancer.Balancer.
func (b *patientBalancer) Close() {
	b.Balancer.Close()
	b.cc.giveUp()
}

// patientClientConn stands between a balancer and its ClientConn.
type patientClientConn struct {
	balancer.ClientConn

	turns  atomic.Pointer[turns]
	wanted atomic.Bool // as fleetBalancer.wanted

	mu    sync.Mutex
	conns map[*patientConn]struct{}
}

// NewSubConn implements balancer.ClientConn.
func (cc *patientClientConn) NewSubConn(addresses []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	c := &patientConn{cc: cc, address: addresses[0].Addr}
	if listener := o.StateListener; listener != nil {
		o.StateListener = func(s balancer.SubConnState) {
			if s.ConnectivityState != connectivity.Connecting {
				c.endDial()
			}
			listener(s)
		}
	}
	var err error
	//nolint:staticcheck // deprecated is to pass several addresses; pick_first passes one, what it is given is passed on
	if c.SubConn, err = cc.ClientConn.NewSubConn(addresses, o); err != nil {
		return nil, err
	}
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.conns[c] = struct{}{}
	return c, nil
}

// UpdateState implements balancer.ClientConn.
func (cc *patientClientConn) UpdateState(s balancer.State) {
	if s.ConnectivityState == connectivity.Ready {
		cc.wanted.Store(false)
	}
	s.Picker = patientPicker{s.Picker, cc}
	cc.ClientConn.UpdateState(s)
}

// want is fleetBalancer.want.
func (cc *patientClientConn) want() {
	if cc.wanted.Load() || cc.wanted.Swap(true) {
		return
	}
	for _, c := range cc.all() {
		c.hurry()
	}
}

func (cc *patientClientConn) giveUp() {
	for _, c := range cc.all() {
		c.endDial()
	}
}

func (cc *patientClientConn) all() []*patientConn {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	list := make([]*patientConn, 0, len(cc.conns))
	for c := range cc.conns {
		list = append(list, c)
	}
	return list
}

// patientConn is a SubConn that connects when its turn comes.
type patientConn struct {
	balancer.SubConn

	cc      *patientClientConn
	address string

	mu   sync.Mutex
	shut bool
	dial *fleet.Dial
}

// Connect implements balancer.SubConn.
func (c *patientConn) Connect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial == nil && !c.shut {
		c.dial = c.cc.turns.Load().connect(c.SubConn, c.address, c.cc.wanted.Load())
	}
}

// Shutdown implements balancer.SubConn.
func (c *patientConn) Shutdown() {
	c.mu.Lock()
	c.shut = true
	c.mu.Unlock()
	c.SubConn.Shutdown()
	c.endDial() // once it is given up indeed
	c.cc.mu.Lock()
	defer c.cc.mu.Unlock()
	delete(c.cc.conns, c)
}

func (c *patientConn) endDial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial != nil {
		c.dial.End()
		c.dial = nil
	}
}

func (c *patientConn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial != nil {
		c.dial.Hurry()
	}
}

// patientPicker gives grpc-go the SubConns that it knows.
type patientPicker struct {
	balancer.Picker

	cc *patientClientConn
}

// Pick implements balancer.Picker.
func (p patientPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := p.Picker.Pick(info)
	if err != nil {
		p.cc.want()
		return result, err
	}
	if c, ok := result.SubConn.(*patientConn); ok {
		result.SubConn = c.SubConn
	}
	return result, nil
}

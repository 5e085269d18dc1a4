package balancer

import (
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// picker gives a call the connection to the endpoint that the fleet chooses. It
// lasts until the endpoints that are ready are others.
type picker struct {
	fleet *fleet.Fleet
	set   *fleet.Set
	picks []balancer.PickResult // of the set's endpoints
}

// newPicker is the picker of the links that are ready, of which more are coming.
func newPicker(f *fleet.Fleet, links []*link, more bool) *picker {
	p := &picker{fleet: f}
	var ready []*fleet.Endpoint
	for _, l := range links {
		if l.state == connectivity.Ready {
			ready = append(ready, l.endpoint)
			p.picks = append(p.picks, l.pick)
		}
	}
	if more {
		p.set = f.NewPartialSet(ready)
	} else {
		p.set = f.NewSet(ready)
	}
	return p
}

// Pick implements balancer.Picker. Where no endpoint will do, the call waits for
// those that are being connected to.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	c := ChoiceOf(info.Ctx)
	if c == nil { // no call's: it says nothing about its endpoint
		c = &fleet.Choice{}
		defer p.fleet.Done(c, fleet.Ignored, 0)
	}
	if i := p.set.Pick(c); i >= 0 {
		return p.picks[i], nil
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

package balancer

import (
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// opening is how long calls are to wait although an endpoint is ready: while a
// connection is being made to one of which the fleet knows nothing yet, and the
// fleet has just begun.
func (b *fleetBalancer) opening(state connectivity.State) time.Duration {
	if state != connectivity.Ready {
		return 0
	}
	for _, l := range b.order {
		if (l.state == connectivity.Connecting || l.state == connectivity.Idle) && !l.endpoint.Known() {
			return b.fleet.Opening()
		}
	}
	return 0
}

// hold has calls wait no longer than that; 0: they do not.
func (b *fleetBalancer) hold(wait time.Duration) {
	if b.held != nil {
		b.held.Stop()
		b.held = nil
	}
	b.holding = wait > 0
	if b.holding {
		b.held = time.AfterFunc(wait, b.release)
	}
}

// release lets calls go, those of a connection that was not closed meanwhile.
func (b *fleetBalancer) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holding {
		b.update()
	}
}

// openingPicker has calls wait for its end, but those that could lose half of
// their time by it.
type openingPicker struct {
	*picker

	patient time.Time // calls that end sooner do not wait
}

func newOpeningPicker(p *picker, wait time.Duration) *openingPicker {
	return &openingPicker{picker: p, patient: time.Now().Add(2 * wait)}
}

// Pick implements balancer.Picker.
func (p *openingPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if deadline, ok := info.Ctx.Deadline(); ok && deadline.Before(p.patient) {
		return p.picker.Pick(info)
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

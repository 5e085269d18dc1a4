package fleet

import "time"

// Health is what an endpoint says of itself.
type Health uint8

// The healths.
const (
	// Unknown: it was not asked, does not say, or has not been heard of for too
	// long. Calls go to it.
	Unknown Health = iota
	// Serving: it says that it serves.
	Serving
	// NotServing: it says that it does not. No calls go to it.
	NotServing
)

// String names the health.
func (h Health) String() string {
	switch h {
	case Serving:
		return "serving"
	case NotServing:
		return "not_serving"
	default:
		return "unknown"
	}
}

// health is what an endpoint says of itself, and who asks it.
type health struct {
	watch Turns
	// Under the fleet's availability.mu: what it says, and since when.
	said      Health
	saidSince time.Duration
}

// HealthTurns says which connection watches the endpoint's health.
func (e *Endpoint) HealthTurns() *Turns { return &e.watch }

// Health is what the endpoint last said.
func (e *Endpoint) Health() Health {
	e.fleet.availability.mu.Lock()
	defer e.fleet.availability.mu.Unlock()
	return e.said
}

// SetHealth takes in what the endpoint says.
func (e *Endpoint) SetHealth(h Health) {
	f := e.fleet
	now := f.now()
	f.change(func() {
		if e.said == h {
			return
		}
		was, since := e.said, e.saidSince
		e.said, e.saidSince = h, now
		if (was == NotServing) == (h == NotServing) {
			return
		}
		e.bar(barUnhealthy, h == NotServing)
		event := Event{Kind: Unhealthy, Address: e.address}
		if h != NotServing {
			event.Kind, event.For = Recovered, now-since
		}
		f.events = append(f.events, event)
		f.settleLocked()
	})
}

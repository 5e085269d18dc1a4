package discovery

import (
	"maps"
	"slices"
	"time"
)

// grace keeps a list of endpoints from turning empty at one word of its source.
// It is a plain value without clock or lock: its owner says what time it is.
//
// An endpoint that is removed while others remain is gone at once. When the
// last one goes, all that were known are held for the period, beside those that
// come (back) meanwhile: a store that lost its content, a burst of expired
// leases, a failing health check of all, or a key that is deleted and written
// again must neither empty the list nor put the whole load on the first
// instance to return.
type grace struct {
	period time.Duration
	last   []endpoint              // the sorted endpoints when the source was last heard
	held   map[string]heldEndpoint // by address
}

type heldEndpoint struct {
	endpoint endpoint
	until    time.Time
}

func newGrace(period time.Duration) grace {
	return grace{period: period, held: make(map[string]heldEndpoint)}
}

// settle takes the sorted endpoints that the source names now, and returns the
// sorted ones to tell gRPC of.
func (g *grace) settle(current []endpoint, now time.Time) []endpoint {
	if len(current) == 0 {
		for _, e := range g.last {
			g.held[e.address] = heldEndpoint{e, now.Add(g.period)}
		}
	}
	g.last = current
	maps.DeleteFunc(g.held, func(_ string, h heldEndpoint) bool { return !now.Before(h.until) })
	for _, e := range current {
		delete(g.held, e.address)
	}
	if len(g.held) == 0 {
		return current
	}
	told := slices.Clone(current)
	for _, h := range g.held {
		told = append(told, h.endpoint)
	}
	slices.SortFunc(told, byAddress)
	return told
}

// extend lets what is held stay for a whole period from now: while the source
// could not be asked, nobody could register again.
func (g *grace) extend(now time.Time) {
	for address, h := range g.held {
		h.until = now.Add(g.period)
		g.held[address] = h
	}
}

// nextExpiry is when settle will have less to tell though nothing changed;
// zero: never.
func (g *grace) nextExpiry() time.Time {
	var next time.Time
	for _, h := range g.held {
		if next.IsZero() || h.until.Before(next) {
			next = h.until
		}
	}
	return next
}

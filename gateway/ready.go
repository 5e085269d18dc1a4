package gateway

import (
	"net/http"
	"sync/atomic"
)

// readiness is off before the start is over and from the first moment of the
// stop.
type readiness struct{ on atomic.Bool }

// StoreState is what is known of the store that credentials are verified against.
type StoreState struct {
	// Reached: it has answered since the gateway started.
	Reached bool
	// Answers: it answered when it was last asked, of late.
	Answers bool
}

// takesCalls tells whether calls should be sent to this gateway. One that never
// reached its store knows no credential, and could only refuse what needs one.
// One that did serves those that it remembers, and if the store is lost it is
// lost to all gateways: none of them is better, and all of them would be out of
// service at once.
func (g *Gateway) takesCalls() bool {
	return g.ready.on.Load() && (g.store == nil || !g.current().cfg.NeedsRedis() || g.store().Reached)
}

// serveReady answers 200 while the gateway takes calls. Backends and stores are
// told beside it, for people: a sick backend must not take the gateway out of
// service for the others.
func (g *Gateway) serveReady(w http.ResponseWriter, _ *http.Request) {
	backends := g.current().backends
	answer := struct {
		Ready    bool            `json:"ready"`
		Backends map[string]bool `json:"backends"`
		Stores   map[string]bool `json:"stores"`
	}{g.takesCalls(), make(map[string]bool, len(backends)), map[string]bool{}}
	for name, b := range backends {
		answer.Backends[name] = b.Healthy()
	}
	if g.store != nil {
		answer.Stores["redis"] = g.store().Answers
	}
	code := http.StatusOK
	if !answer.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, answer)
}

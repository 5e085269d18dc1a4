package fleet

import (
	"sync/atomic"
	"time"
)

// Choice is what one attempt wants of its endpoint, and which one it got. It
// belongs to one attempt, which is picked for by one goroutine at a time (gRPC
// may pick again for an attempt whose connection turned out dead), and must not
// be copied once it was picked with.
type Choice struct {
	// For ring_hash: the hash of what keeps its endpoint; without Keyed any will
	// do.
	Key   uint64
	Keyed bool
	// The attempt streams: how long it takes says nothing.
	Stream bool
	// Which endpoints the call may go to; nil: any.
	Filter *Filter
	// Endpoints that were tried for this call, avoided as long as there are others.
	Tried []*Endpoint
	// Where other goroutines are told of the endpoint chosen; nil: nowhere.
	Told *atomic.Pointer[Endpoint]

	// Endpoint is the one chosen; nil: none yet.
	Endpoint *Endpoint
	begun    time.Duration // when it was chosen, by the fleet's clock
	trial    bool          // it is the one call by which an ejected endpoint shows that it is well
}

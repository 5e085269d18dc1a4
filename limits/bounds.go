package limits

import (
	"sync"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/limits/keyed"
)

// BoundKind is what a [Bounds] counts.
type BoundKind uint8

// The kinds: calls in flight, streams included, and streams alone.
const (
	BoundCalls BoundKind = iota
	BoundStreams
)

// BoundKey is whose calls are counted together: an app's; with Token, one token's;
// with Method, the app's of one method.
type BoundKey struct {
	App, Token, Method string
	Kind               BoundKind
}

// Bounds counts what is in flight of each app, token and method that has a limit.
// To hold a place and to leave it is an atomic operation each.
type Bounds struct {
	table    *keyed.Table[BoundKey, Place]
	sweeping sync.Mutex
}

// maxBounds is how many keys are counted at once. Beyond as many that have
// something in flight, who has a limit is refused.
const maxBounds = 1 << 16

// closed is what a place counts that is no key's any more.
const closed = -1 << 40

// NewBounds makes one with nothing in flight.
func NewBounds() *Bounds { return &Bounds{table: keyed.New[BoundKey, Place](maxBounds)} }

// Place is where the calls of one key are counted. A nil Place counts nothing.
type Place struct{ inFlight atomic.Int64 }

// Enter takes one of a key's places, of which there are limit; false: all are
// taken. It is to be left when the call is over. A limit of 0 is none, and needs
// no place.
func (b *Bounds) Enter(key BoundKey, limit int) (*Place, bool) {
	if limit <= 0 {
		return nil, true
	}
	for {
		p := b.table.Get(key)
		if p == nil {
			if p = b.put(key); p == nil {
				return nil, false
			}
		}
		switch n := p.inFlight.Add(1); {
		case n <= 0:
			continue // it was found just before it was closed
		case n > int64(limit):
			p.inFlight.Add(-1)
			return nil, false
		}
		return p, true
	}
}

// Leave gives the place back.
func (p *Place) Leave() {
	if p != nil {
		p.inFlight.Add(-1)
	}
}

func (b *Bounds) put(key BoundKey) *Place {
	if p := b.table.Put(key); p != nil {
		return p
	}
	b.sweeping.Lock()
	defer b.sweeping.Unlock()
	if p := b.table.Put(key); p != nil { // somebody else has swept
		return p
	}
	b.table.Sweep(func(_ BoundKey, p *Place) bool { return !p.inFlight.CompareAndSwap(0, closed) })
	return b.table.Put(key)
}

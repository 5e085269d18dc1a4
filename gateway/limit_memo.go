package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/limits/keyed"
	"github.com/rpcgate/rpcgate/routes"
)

// memoSize bounds a memo, of all routes together.
const memoSize = 1 << 16

// memo remembers the limits that principals' calls were found to have. A principal
// is one object while it is remembered, and another when something about it has
// changed, so that what is remembered is never old. It is read without a lock.
//
// Where there is no room, what was not used again since that was so the last time
// is forgotten, and where all was, everything.
type memo struct {
	table    *keyed.Table[memoKey, memorized]
	sweeping sync.Mutex
}

type memoKey struct {
	principal *auth.Principal // nil: no credential was needed
	route     *routes.Route   // nil: one without limits of its own
}

type memorized struct {
	by   atomic.Pointer[callLimits]
	used atomic.Bool
}

func newMemo() *memo { return &memo{table: keyed.New[memoKey, memorized](memoSize)} }

// get gives what was put; nil: nothing, or it was forgotten.
func (m *memo) get(key memoKey) *callLimits {
	v := m.table.Get(key)
	if v == nil {
		return nil
	}
	if !v.used.Load() { // else its line stays with all who read it
		v.used.Store(true)
	}
	return v.by.Load()
}

func (m *memo) put(key memoKey, by *callLimits) {
	v := m.table.Put(key)
	if v == nil {
		v = m.makeRoom(key)
	}
	v.by.Store(by)
}

func (m *memo) makeRoom(key memoKey) *memorized {
	m.sweeping.Lock()
	defer m.sweeping.Unlock()
	for {
		if v := m.table.Put(key); v != nil {
			return v
		}
		m.table.Sweep(func(_ memoKey, v *memorized) bool { return v.used.Swap(false) })
	}
}

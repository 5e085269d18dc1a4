package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/auth"
)

// memoSize bounds each of a memo's two halves.
const memoSize = 16384

// memo remembers the limits that principals were found to have. A principal is one
// object while it is remembered, and another when something about it has changed,
// so that what is remembered is never old. It is read without a lock.
//
// What is not used is forgotten by halves: a full half becomes the older one, and
// the older one is dropped but for what has been used since.
type memo struct {
	young, old atomic.Pointer[sync.Map]

	mu sync.Mutex
	n  int // in young
}

func (m *memo) get(p *auth.Principal) (*callLimits, bool) {
	if young := m.young.Load(); young != nil {
		if v, ok := young.Load(p); ok {
			return v.(*callLimits), true
		}
	}
	if old := m.old.Load(); old != nil {
		if v, ok := old.Load(p); ok {
			m.put(p, v.(*callLimits))
			return v.(*callLimits), true
		}
	}
	return nil, false
}

func (m *memo) put(p *auth.Principal, by *callLimits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	young := m.young.Load()
	if young == nil || m.n >= memoSize {
		m.old.Store(young)
		young, m.n = new(sync.Map), 0
		m.young.Store(young)
	}
	if _, had := young.Swap(p, by); !had {
		m.n++
	}
}

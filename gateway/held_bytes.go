package gateway

import (
	"math"
	"sync/atomic"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/limits"
)

// heldBytes is what a call holds of the bytes that all calls may hold together:
// messages, from when their callers announce them or they come until the call is
// over, or, in a stream, the next one comes. One RecvMsg may be under way when the
// call is over; what it reads then is held no more.
type heldBytes struct {
	shedder  *shedder // admit; nil: nothing is counted
	tenant   limits.Tenant
	priority limits.Priority
	n        atomic.Int64 // over: the call is
	in, out  int64        // of n, the latest message each way: RecvMsg's, SendMsg's
}

const over = math.MinInt64

// A message of less is not counted: it is within what any call takes.
const leastHeld = 8 << 10

// jsonGrowth is how many times the bytes of an answer's message are held until its
// JSON is written.
const jsonGrowth = 3

// more has n bytes more held, or fewer, and must: it does not ask.
func (h *heldBytes) more(n int64) {
	for {
		old := h.n.Load()
		if old == over {
			return
		}
		if h.n.CompareAndSwap(old, old+n) {
			h.shedder.bytes.Add(h.tenant, n)
			return
		}
	}
}

// take has n bytes more held, if they are to be had.
func (h *heldBytes) take(n int64) error {
	bytes := h.shedder.bytes
	if v := bytes.Take(h.tenant, n); v != limits.Admitted {
		h.shedder.count(v, h.priority)
		return errOverloaded
	}
	for {
		old := h.n.Load()
		if old == over {
			bytes.Add(h.tenant, -n)
			return nil
		}
		if h.n.CompareAndSwap(old, old+n) {
			return nil
		}
	}
}

// free gives all back when the call is over.
func (h *heldBytes) free() {
	if h.shedder == nil {
		return
	}
	if n := h.n.Swap(over); n != over {
		h.shedder.bytes.Add(h.tenant, -n)
	}
}

// toHold is how much of a body that is announced will be held at once: of a stream's
// its messages, one after the other, and nothing of one that may not be so large.
func (c *Call) toHold() int64 {
	if c.Route.ClientStreams || c.bound.maxBody > 0 && c.length > c.bound.maxBody {
		return 0
	}
	return c.length
}

// announced is for a body that is not read yet, as its caller says how large it is.
func (h *heldBytes) announced(n int64) error {
	if h.shedder == nil || h.in != 0 || n < leastHeld {
		return nil
	}
	h.in = n
	return h.take(n)
}

// received is for a message that was read.
func (h *heldBytes) received(n int64, streams bool) error {
	if h.shedder == nil || n < leastHeld && h.in == 0 {
		return nil
	}
	before := h.in
	if !streams {
		before = 0 // the body that it was made of is held, too
	}
	h.in = n
	if n > before {
		return h.take(n - before)
	}
	h.more(n - before)
	return nil
}

// answers is for a message of the backend's: it is there, whatever else is.
func (h *heldBytes) answers(msg mem.BufferSlice, json bool) {
	if h.shedder == nil {
		return
	}
	n := int64(msg.Len())
	if json {
		n *= jsonGrowth
	}
	if n < leastHeld {
		n = 0
	}
	if n != h.out {
		h.more(n - h.out)
		h.out = n
	}
}

// usualAnswer is how much the answers of a route take, of late, to each app: what
// one asks for must not be held against another. There is nothing of it as long as
// all of them are small.
type usualAnswer struct {
	byTenant atomic.Pointer[[limits.Cells]atomic.Uint32] // in KiB
}

// note takes an answer in. What is large counts at once, and what is small little
// by little: who is let in by it must have room for what may come.
func (u *usualAnswer) note(t limits.Tenant, n int64) {
	all := u.byTenant.Load()
	if all == nil {
		if n < leastHeld {
			return
		}
		u.byTenant.CompareAndSwap(nil, new([limits.Cells]atomic.Uint32))
		all = u.byTenant.Load()
	}
	latest, cell := uint32(min(n>>10, math.MaxInt32)), &all[t.Cell()]
	switch usual := cell.Load(); {
	case latest > usual:
		cell.Store(latest)
	case usual > latest:
		cell.Store(usual - (usual-latest+15)/16)
	}
}

// room takes room for an answer before there is one: once the backend has given it,
// it is too late to refuse the call.
func (u *usualAnswer) room(h *heldBytes) limits.Verdict {
	all := u.byTenant.Load()
	if all == nil {
		return limits.Admitted
	}
	n := int64(all[h.tenant.Cell()].Load()) << 10
	if n < leastHeld {
		return limits.Admitted
	}
	v := h.shedder.bytes.Take(h.tenant, n)
	if v == limits.Admitted {
		h.n.Store(n) // nobody else has the call yet
		h.out = n
	}
	return v
}

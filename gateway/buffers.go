package gateway

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// maxAhead is the largest buffer that is made before there is anything to fill
// it, and that a stream keeps between messages.
const maxAhead = 64 << 10

// maxKept is the largest buffer that is kept for another call: one huge body
// must not pin its memory for ever. The collector empties the pools, so that what
// is kept was of use lately. Growing its buffers anew cost a message of 100 KB
// ten times its size in garbage.
const maxKept = 1 << 20

// minPooled is the least capacity of a buffer. It is above grpc-go's threshold,
// below which mem.NewBuffer keeps a buffer instead of giving it back.
const minPooled = 2 << 10

// buffers lends out byte slices for bodies and messages. Those of more than
// maxAhead are kept apart, for messages that need them: a thousand slow calls
// with small messages must not hold what large ones left.
type buffers struct{ small, large sync.Pool }

var _ mem.BufferPool = (*buffers)(nil)

// Get returns a slice of length n.
func (b *buffers) Get(n int) *[]byte {
	pool := b.of(n)
	if p, ok := pool.Get().(*[]byte); ok {
		if cap(*p) >= n {
			*p = (*p)[:n]
			return p
		}
		pool.Put(p)
	}
	buf := make([]byte, n, max(n, minPooled))
	return &buf
}

// room returns an empty slice for what may take about n bytes; below 0: nobody
// knows how many. It has no more than maxAhead of them unless it had them for another call: n may be a caller's
// word only.
func (b *buffers) room(n int) *[]byte {
	if n > maxAhead {
		if p, ok := b.large.Get().(*[]byte); ok {
			*p = (*p)[:0]
			return p
		}
	}
	p := b.Get(min(max(n, 0), maxAhead))
	*p = (*p)[:0]
	return p
}

// of is the pool of slices with a capacity, or a need, of n bytes.
func (b *buffers) of(n int) *sync.Pool {
	if n > maxAhead {
		return &b.large
	}
	return &b.small
}

// Put takes a slice back. nil is none. A slice that was given to a write that
// failed must not come back: where a caller resets its stream of HTTP/2,
// net/http's Write returns while its connection may yet read the slice, and would
// send that caller what is another's by then.
func (b *buffers) Put(p *[]byte) {
	if p != nil && cap(*p) <= maxKept {
		b.of(cap(*p)).Put(p)
	}
}

// joined gives a message's bytes in one piece: its own where it is in one, or
// those of a slice that is lent and to be put back; nil: none is.
func (b *buffers) joined(msg mem.BufferSlice) (data []byte, lent *[]byte) {
	if len(msg) == 1 {
		return msg[0].ReadOnlyData(), nil
	}
	lent = b.Get(msg.Len())
	msg.CopyTo(*lent)
	return *lent, lent
}

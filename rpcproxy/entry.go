package rpcproxy

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// reason says why a connection takes no new calls. The texts are label values
// and never empty.
type reason string

const (
	reasonEvicted  reason = "evicted"  // it made room for another
	reasonIdle     reason = "idle"     // it carried no call for a while
	reasonRevoked  reason = "revoked"  // its credential was revoked
	reasonShutdown reason = "shutdown" // the backend is being shut down
)

// retiredBit is set in entry.refs when the entry takes no new calls: it makes
// refs negative, and leaves room for the leases to be counted below it.
const retiredBit = math.MinInt64

// connKey is everything that tells connections apart.
type connKey struct {
	Credential
	Endpoint string // empty: any, as the balancer chooses
}

// compact is the key with its texts in one piece of memory of their own: what
// came with a request would keep all of its header alive, and is read from
// several places.
func (k *connKey) compact() connKey {
	all := k.App + k.TokenID + k.Token + k.Endpoint
	cut := func(n int) (text string) { text, all = all[:n], all[n:]; return text }
	return connKey{
		Credential: Credential{App: cut(len(k.App)), TokenID: cut(len(k.TokenID)), Token: cut(len(k.Token))},
		Endpoint:   cut(len(k.Endpoint)),
	}
}

// entry is one pooled connection.
//
// Its life: live (in the pool's table, takes calls) → retired (in no table,
// its last calls go on) → closed. refs counts the leases; whoever finds
// it at exactly retiredBit, no lease left, closes the connection.
type entry struct {
	key  connKey
	hash uint64 // of key, in the pool's table
	conn *grpc.ClientConn
	pool *Pool

	refs atomic.Int64
	// When it was made or last released, on the pool's clock.
	used atomic.Int64
	// Why it was retired; set before the retired bit, under the pool's lock.
	why atomic.Pointer[reason]
	// Set when it was closed though calls were in flight: they were cut off.
	cut atomic.Bool

	closing sync.Once

	// The rest is the pool's, under its lock.
	place *list.Element // in Pool.recency while live; nil: retired
	next  *entry        // of its app's, in Pool.byApp, until it is closed
	prev  *entry
	stamp int64       // used, when the entry was last put to the front
	drain *time.Timer // closes it at the drain limit
}

// acquire counts a lease, unless the entry is retired. It takes no lock.
func (e *entry) acquire() bool {
	if e.refs.Add(1) > 0 {
		return true
	}
	e.release()
	return false
}

// release ends a lease.
func (e *entry) release() {
	if e.refs.Add(-1) == retiredBit {
		e.close()
	}
}

// retireLocked makes the entry take no new leases, and tells whether some are
// left. The pool's lock is held.
func (e *entry) retireLocked(why reason) (busy bool) {
	e.why.Store(&why)
	for {
		n := e.refs.Load()
		if e.refs.CompareAndSwap(n, n|retiredBit) {
			return n > 0
		}
	}
}

// retireUnusedLocked retires the entry if it has no lease. The pool's lock is
// held.
func (e *entry) retireUnusedLocked(why reason) bool {
	e.why.Store(&why)
	return e.refs.CompareAndSwap(0, retiredBit)
}

// close closes the connection in the background: grpc-go may wait some seconds
// for a peer that does not read.
func (e *entry) close() {
	e.closing.Do(func() { go e.pool.closeEntry(e) })
}

// cutOff closes the connection with the calls in flight.
func (e *entry) cutOff() {
	e.cut.Store(true)
	e.close()
}

// Lease is the use of a pooled connection for a while. It must be released,
// once; the connection stays open at least until then, or until the drain
// limit if it was retired meanwhile. The zero Lease has no connection.
type Lease struct {
	entry *entry
}

// Conn is the connection. It must not be used after Release, nor closed. It has
// no default call options: pass grpc.MaxCallRecvMsgSize where grpc-go's 4 MiB are
// too few.
func (l Lease) Conn() *grpc.ClientConn { return l.entry.conn }

// Release gives the connection back.
func (l Lease) Release() {
	l.entry.used.Store(l.entry.pool.now())
	l.entry.release()
}

// ended tells why calls on the connection were cut off, empty if they were not.
func (l Lease) ended() reason {
	if !l.entry.cut.Load() {
		return ""
	}
	return *l.entry.why.Load()
}

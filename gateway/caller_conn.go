package gateway

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	grpcpeer "google.golang.org/grpc/peer"

	"github.com/rpcgate/rpcgate/limits"
)

// callerConn is a caller's connection. It knows whose it is once a call on it was
// authenticated, and while there is a want of processors what is read from it is
// its app's work: it waits for its turn, and nothing more is read while enough of
// the app's calls wait. What is not read fills the system's buffers, and then holds
// the sender back: reading calls only to have them wait, or to refuse them, would
// cost what serving others does.
//
// A connection with calls of several apps, such as another proxy's, is nobody's, and
// is read as it comes.
type callerConn struct {
	net.Conn
	turns *turns
	owner atomic.Uint64 // 0: nobody yet; 1: several; else a Tenant's key, and 2

	mu      sync.Mutex
	changed chan struct{} // closed when a pause is to end; nil: nobody pauses
	closed  bool
	until   time.Time // the limit of reading; zero: there is none
}

const (
	ownedByNobody  = 0
	ownedBySeveral = 1
	ownedFrom      = 2
)

// belongsTo notes that a tenant's call came by this connection.
func (c *callerConn) belongsTo(t limits.Tenant) {
	key := uint64(t.Key()) + ownedFrom
	switch owner := c.owner.Load(); {
	case owner == key || owner == ownedBySeveral:
	case owner == ownedByNobody:
		c.owner.CompareAndSwap(owner, key)
	default:
		c.owner.Store(ownedBySeveral)
	}
}

// leastRead is how much must be read for it to be work: less is a call's headers,
// whose work is the call's, or what keeps a connection going.
const leastRead = 1 << 10

// Read reads what there is.
func (c *callerConn) Read(p []byte) (int, error) {
	if !c.turns.limits.Engaged() {
		return c.Conn.Read(p)
	}
	owner := c.owner.Load()
	if owner < ownedFrom {
		return c.Conn.Read(p)
	}
	tenant := limits.TenantOf(uint32(owner - ownedFrom))
	c.pause(tenant)
	n, err := c.Conn.Read(p)
	if n >= leastRead {
		_ = c.turns.wait(context.Background(), tenant, limits.RankAnswer, costOfBytesKiB*time.Duration(n)/1024) // it has no end but its turn
	}
	return n, err
}

func (c *callerConn) pause(tenant limits.Tenant) {
	turn := c.turns.spare.Get().(*limits.Turn) //nolint:forcetypeassert // what New makes
	defer c.turns.spare.Put(turn)
	if !c.turns.limits.Pause(turn, tenant) {
		return
	}
	defer c.turns.limits.Give(turn)
	changed := c.mayPause()
	if changed == nil {
		return
	}
	select {
	case <-turn.Ready():
	case <-changed:
	}
}

// mayPause gives what is closed when a pause is to end; nil: there is nothing to be
// read any more, and whoever has ended the reading waits for the reader.
func (c *callerConn) mayPause() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.until.IsZero() && !time.Now().Before(c.until) {
		return nil
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// endLocked ends a pause: the connection is closed, or has another limit in time,
// and whoever reads from it wants to know.
func (c *callerConn) endLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// limited notes the limit of reading.
func (c *callerConn) limited(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
	c.endLocked()
}

// Close closes the connection.
func (c *callerConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.endLocked()
	c.mu.Unlock()
	return c.Conn.Close()
}

// SetDeadline limits reading and writing.
func (c *callerConn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	c.limited(t)
	return err
}

// SetReadDeadline limits reading.
func (c *callerConn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	c.limited(t)
	return err
}

// CloseWrite is for net/http, which closes connections by halves.
func (c *callerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// RemoteAddr is the caller's address, by which a call over gRPC finds its
// connection.
func (c *callerConn) RemoteAddr() net.Addr { return callerAddr{c.Conn.RemoteAddr(), c} }

type callerAddr struct {
	net.Addr
	conn *callerConn
}

// callerListener has the connections of callers be such.
type callerListener struct {
	net.Listener
	turns *turns
}

// Accept waits for the next one.
func (l callerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &callerConn{Conn: c, turns: l.turns}, nil
}

// connKey is the context key of an HTTP call's connection.
type connKey struct{}

// withConn is an http.Server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if conn, ok := c.(*callerConn); ok {
		return context.WithValue(ctx, connKey{}, conn)
	}
	return ctx
}

// connOf is the connection that a call came by; nil: it is not known.
func connOf(ctx context.Context) *callerConn {
	if c, ok := ctx.Value(connKey{}).(*callerConn); ok {
		return c
	}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if addr, ok := p.Addr.(callerAddr); ok {
			return addr.conn
		}
	}
	return nil
}

package auth

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

const (
	// dialPause is the least time between attempts to connect to a server that
	// could not be connected to.
	dialPause = 100 * time.Millisecond
	// maxUnreachable bounds how many such servers are remembered: a cluster
	// names its nodes, and they may change.
	maxUnreachable = 1024
)

// dialer connects to Redis.
//
// go-redis dials no more once as many attempts failed in a row as a pool has
// connections, and looks once a second whether the server is back: calls would
// be refused for a second more than they must. Here a connection that could not
// be made is no error of dialling, but of the connection's first use, and what
// keeps a dead server from being hammered is a shorter pause.
type dialer struct {
	connect func(ctx context.Context, network, addr string) (net.Conn, error)

	mu          sync.Mutex
	unreachable map[string]failedConn
}

func newDialer(timeout time.Duration, cfg *tls.Config) *dialer {
	d := &net.Dialer{Timeout: timeout}
	if cfg == nil {
		return &dialer{connect: d.DialContext}
	}
	return &dialer{connect: (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext}
}

// DialContext is net.Dialer's, but for an error that shows in the connection.
func (d *dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	failed, ok := d.unreachable[addr]
	d.mu.Unlock()
	if ok && time.Since(failed.at) < dialPause {
		return failed, nil
	}
	conn, err := d.connect(ctx, network, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.unreachable, addr)
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, err // the caller's time was up: it says nothing of the server
	}
	if d.unreachable == nil || len(d.unreachable) >= maxUnreachable {
		d.unreachable = make(map[string]failedConn)
	}
	failed = failedConn{err: err, at: time.Now()}
	d.unreachable[addr] = failed
	return failed, nil
}

// failedConn is a connection that could not be made.
type failedConn struct {
	err error
	at  time.Time
}

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }

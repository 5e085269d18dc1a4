package gateway

import (
	"net"
	"sync"
	"time"
)

// lazyDeadlines gives connections whose deadlines are set when something waits
// for them to be kept, and not each time that net/http or a front end says so:
// six times a request for reading and twice for writing, each of which moves a
// timer of the runtime's. Most requests and bodies are read with the same read
// that found their first byte, and few answers wait for their readers.
type lazyDeadlines struct{ net.Listener }

func (l lazyDeadlines) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newLazyConn(conn), nil
}

type lazyConn struct {
	net.Conn

	read, write lazyDeadline
}

func newLazyConn(conn net.Conn) *lazyConn {
	c := &lazyConn{Conn: conn}
	c.read.arm, c.write.arm = conn.SetReadDeadline, conn.SetWriteDeadline
	return c
}

func (c *lazyConn) Read(b []byte) (int, error) {
	if err := c.read.begin(); err != nil {
		return 0, err
	}
	defer c.read.end()
	return c.Conn.Read(b)
}

func (c *lazyConn) Write(b []byte) (int, error) {
	if err := c.write.begin(); err != nil {
		return 0, err
	}
	defer c.write.end()
	return c.Conn.Write(b)
}

// CloseWrite is for net/http, which looks for it: a refused request's connection
// is first closed for writing.
func (c *lazyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *lazyConn) SetDeadline(t time.Time) error {
	if err := c.read.set(t); err != nil {
		return err
	}
	return c.write.set(t)
}

func (c *lazyConn) SetReadDeadline(t time.Time) error  { return c.read.set(t) }
func (c *lazyConn) SetWriteDeadline(t time.Time) error { return c.write.set(t) }

// earlyBy is which part of the time that is left a deadline may be early by, so
// that one that was set for a request serves those that follow soon after it.
const earlyBy = 32

// lazyDeadline is the deadline of one direction of a connection.
type lazyDeadline struct {
	arm func(time.Time) error

	mu     sync.Mutex // guards the rest, and calls of arm
	wanted time.Time
	armed  time.Time // what the connection has
	users  int       // reads or writes that are under way
}

// set takes a deadline, and hands it on at once if something waits already: it
// may be meant to end that.
func (d *lazyDeadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if d.users == 0 {
		return nil
	}
	return d.armLocked()
}

func (d *lazyDeadline) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.servesLocked() {
		if err := d.armLocked(); err != nil {
			return err
		}
	}
	d.users++
	return nil
}

func (d *lazyDeadline) end() {
	d.mu.Lock()
	d.users--
	d.mu.Unlock()
}

// servesLocked tells whether the deadline that is armed does for the wanted one.
func (d *lazyDeadline) servesLocked() bool {
	if d.wanted.Equal(d.armed) {
		return true
	}
	if d.wanted.IsZero() || d.armed.IsZero() {
		return false
	}
	early := d.wanted.Sub(d.armed)
	return early >= 0 && early <= time.Until(d.wanted)/earlyBy
}

func (d *lazyDeadline) armLocked() error {
	if err := d.arm(d.wanted); err != nil {
		return err
	}
	d.armed = d.wanted
	return nil
}

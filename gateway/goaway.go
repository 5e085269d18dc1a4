package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// farewells announces to HTTP/2 callers of net/http's server that it is going to
// stop, before it does: a GOAWAY that leaves no stream out (RFC 9113, 6.8). What
// they open until they have read it is served; net/http's own GOAWAY, which
// leaves out what it has not seen yet, comes a round trip later.
//
// net/http sends only the latter, so that calls that race with it are lost where
// the client does not repeat them. It has no way to send the former: it is put
// between the frames that the server writes.
type farewells struct {
	mu      sync.Mutex
	conns   map[*farewellConn]struct{}
	leaving bool      // the stop has begun
	last    time.Time // when the latest connection was told
	telling sync.WaitGroup
}

// roundTrip is what net/http, too, takes for longer than a GOAWAY and what is
// sent before it is read need to cross (its goAwayTimeout).
const roundTrip = time.Second

// unencryptedHTTP2 is where net/http keeps what serves HTTP/2 in clear text, in
// [http.Server.TLSNextProto].
const unencryptedHTTP2 = "unencrypted_http2"

// newFarewells has srv's HTTP/2 connections announced to. It is called before srv
// serves. Over TLS, net/http's handler is given the connection as it gives those in
// clear text to itself, since it takes a *tls.Conn only as it is.
func newFarewells(srv *http.Server) *farewells {
	f := &farewells{conns: make(map[*farewellConn]struct{})}
	// It makes its handlers of HTTP/2 when it begins to serve; so it begins, at
	// a listener that has nothing.
	if srv.TLSConfig != nil {
		_ = srv.ServeTLS(noListener{}, "", "")
	} else {
		_ = srv.Serve(noListener{})
	}
	serve := srv.TLSNextProto[unencryptedHTTP2]
	if serve == nil {
		return f // this net/http does it in another way: its own GOAWAY has to do
	}
	srv.TLSNextProto[unencryptedHTTP2] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		if inner, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok {
			conn := f.add(inner.UnencryptedNetConn())
			defer f.remove(conn)
			c = tls.Client(clearConn{conn}, nil)
		}
		serve(hs, c, h)
	}
	if srv.TLSNextProto[http2.NextProtoTLS] == nil {
		return f
	}
	srv.TLSNextProto[http2.NextProtoTLS] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		if !readPreface(c) {
			_ = c.Close()
			return
		}
		conn := f.add(c)
		defer f.remove(conn)
		serve(hs, tls.Client(clearConn{tlsFarewellConn{conn, c}}, nil), h)
	}
	return f
}

// prefaceTimeout is net/http's.
const prefaceTimeout = 10 * time.Second

// readPreface reads what the handler of connections in clear text expects to be
// read already.
func readPreface(c net.Conn) bool {
	preface := make([]byte, len(http2.ClientPreface))
	_ = c.SetReadDeadline(time.Now().Add(prefaceTimeout))
	_, err := io.ReadFull(c, preface)
	_ = c.SetReadDeadline(time.Time{})
	return err == nil && string(preface) == http2.ClientPreface
}

func (f *farewells) add(c net.Conn) *farewellConn {
	conn := &farewellConn{Conn: c}
	f.mu.Lock()
	defer f.mu.Unlock()
	conn.late = f.leaving
	conn.wanted.Store(f.leaving)
	f.conns[conn] = struct{}{}
	return conn
}

func (f *farewells) remove(conn *farewellConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// begin tells all that have had an answer. Others are told with their first one:
// who connects to a gateway that is stopping, as its load balancer has not looked
// away yet, is served once, and would try for ever if he was sent away before.
func (f *farewells) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = true
	f.tell(false)
}

// end tells those that are left, and waits until what any of them may have sent
// meanwhile is here.
func (f *farewells) end(ctx context.Context) {
	f.mu.Lock()
	f.tell(true)
	left := time.Duration(0)
	if len(f.conns) > 0 {
		left = time.Until(f.last.Add(roundTrip))
	}
	f.mu.Unlock()
	sleep(ctx, left)
}

// wait waits for announcements that found no room on their connections: these
// must have been closed.
func (f *farewells) wait() { f.telling.Wait() }

// tell must be called with the lock held.
func (f *farewells) tell(unanswered bool) {
	for conn := range f.conns {
		if conn.late {
			f.last = time.Now() // it may have been told just now
		}
		if conn.told.Load() {
			continue
		}
		if unanswered {
			conn.answered.Store(true)
		} else if !conn.answered.Load() {
			conn.late = true
		}
		conn.wanted.Store(true)
		f.last = time.Now()
		f.telling.Go(conn.tell)
	}
}

// farewellConn knows where in the stream of frames its writer is.
type farewellConn struct {
	net.Conn

	wanted   atomic.Bool // the caller is to be told
	answered atomic.Bool // an answer has begun, or it does not matter
	told     atomic.Bool
	late     bool // it is told at a moment of its own, once the stop has begun

	mu     sync.Mutex // held while anything is written
	header [9]byte    // of a frame, as far as it was written
	have   int        // how many bytes of it
	rest   int        // of the frame's payload, not yet written
	begun  bool       // the first frame, the server's settings, was written
	block  bool       // a header block goes on in the next frame
}

// lastGoAway is a GOAWAY with the highest stream that there can be, and no error.
const lastGoAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x7f\xff\xff\xff" + "\x00\x00\x00\x00"

// Write is the server's.
func (c *farewellConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	n, err := c.Conn.Write(p)
	c.advance(p[:n])
	c.mu.Unlock()
	// tell may have found the lock taken.
	if c.wanted.Load() && !c.told.Load() {
		c.tell()
	}
	return n, err
}

// tell announces the stop, if a caller can be told at this point; else the next
// Write does.
func (c *farewellConn) tell() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	between := c.begun && c.have == 0 && c.rest == 0 && !c.block
	if between && c.wanted.Load() && c.answered.Load() && c.told.CompareAndSwap(false, true) {
		_, _ = io.WriteString(c.Conn, lastGoAway) // a broken connection shows to its server
	}
}

// advance follows the frames over what was written.
func (c *farewellConn) advance(p []byte) {
	for len(p) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(p))
			c.rest -= n
			p = p[n:]
			continue
		}
		n := copy(c.header[c.have:], p)
		p = p[n:]
		if c.have += n; c.have < len(c.header) {
			return
		}
		c.have = 0
		c.begun = true
		c.rest = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
		switch kind, flags := http2.FrameType(c.header[3]), http2.Flags(c.header[4]); kind {
		case http2.FrameHeaders:
			c.answered.Store(true)
			c.block = !flags.Has(http2.FlagHeadersEndHeaders)
		case http2.FrameContinuation:
			c.block = !flags.Has(http2.FlagContinuationEndHeaders)
		}
	}
}

// tlsFarewellConn is one over TLS: the server asks it for its state.
type tlsFarewellConn struct {
	*farewellConn
	tls *tls.Conn
}

// ConnectionState is what net/http shows of TLS in a request.
func (c tlsFarewellConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// clearConn is how net/http hands a connection to its handler of HTTP/2 in clear
// text, inside of a tls.Conn that nobody uses.
type clearConn struct{ net.Conn }

// UnencryptedNetConn is what that handler asks for.
func (c clearConn) UnencryptedNetConn() net.Conn { return c.Conn }

// noListener has no connections.
type noListener struct{}

var errNoListener = errors.New("no connections here")

// Accept fails.
func (noListener) Accept() (net.Conn, error) { return nil, errNoListener }

// Close does nothing.
func (noListener) Close() error { return nil }

// Addr is nowhere.
func (noListener) Addr() net.Addr { return &net.TCPAddr{} }

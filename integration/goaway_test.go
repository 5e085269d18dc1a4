package integration_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Fault 6: a stop is announced by a GOAWAY that leaves no stream out; what a
// caller opens until it has read that is served, whatever its connection did
// before; then comes the GOAWAY that says which the last stream was, and the end.
func TestFault6DrainIsAnnouncedInTwoSteps(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, port := range map[string]struct {
		tls  bool
		addr func(*rig) string
	}{
		"gRPC":          {false, func(r *rig) string { return r.GRPC }},
		"HTTP":          {false, func(r *rig) string { return r.HTTP }},
		"HTTP over TLS": {true, func(r *rig) string { return r.HTTP }},
	} {
		for before, begin := range map[string]func(*frameConn, *rig){
			"idle": func(c *frameConn, r *rig) {
				c.call(1, true, r)
				c.served(1)
			},
			"with a call under way": func(c *frameConn, r *rig) {
				c.call(1, false, r) // whose caller says no more yet
			},
		} {
			t.Run(name+", "+before, func(t *testing.T) {
				t.Parallel()
				b := testbackend.Start(t)
				settings := "shutdown: {delay: 0s}\n"
				if port.tls {
					pair := ca.issue("gateway", 1)
					settings += fmt.Sprintf("http: {address: \"127.0.0.1:0\", tls: {cert_file: %s, key_file: %s}}\n", pair.cert, pair.key)
				}
				r := newRig(t, echoConfig(b, "")+settings)
				conn := rawConn(t, port.addr(r))
				if port.tls {
					config := ca.client()
					config.ServerName, config.NextProtos = "127.0.0.1", []string{"h2"}
					conn = tls.Client(conn, config)
				}
				c := startFrames(t, conn)
				begin(c, r)
				if before != "idle" {
					waitForCall(t, b)
				}
				r.Signal(syscall.SIGTERM)
				c.twoSteps(r, before != "idle")
				if exit := r.ExitCode(); exit != 0 {
					t.Errorf("exit status %d", exit)
				}
			})
		}
	}
}

// twoSteps reads a connection to its end, from the first GOAWAY on, and makes
// calls that race with it. open: stream 1 is to be ended.
func (c *frameConn) twoSteps(r *rig, open bool) {
	c.t.Helper()
	first := c.goAway()
	if first.LastStreamID != math.MaxInt32 || first.ErrCode != http2.ErrCodeNo {
		c.t.Fatalf("the first GOAWAY has the last stream %d, and %v", first.LastStreamID, first.ErrCode)
	}
	for _, stream := range []uint32{3, 5} { // sent before it was read, for all that the server knows
		c.call(stream, true, r)
	}
	c.answerPings() // grpc-go takes an answer for a sign that its GOAWAY was read
	c.served(3)
	c.served(5)
	if open {
		c.data(1, true, "")
		c.served(1)
	}
	last := c.goAway()
	if last.LastStreamID != 5 || last.ErrCode != http2.ErrCodeNo {
		c.t.Errorf("the last GOAWAY has the last stream %d, and %v", last.LastStreamID, last.ErrCode)
	}
	for {
		if _, err := c.framer.ReadFrame(); err != nil {
			if !errors.Is(err, io.EOF) {
				c.t.Errorf("the connection ended with %v", err)
			}
			return
		}
	}
}

// call calls Echo/Bidi with one message.
func (c *frameConn) call(stream uint32, end bool, r *rig) {
	c.headers(stream, false, append(grpcHeaders(echoBidi), "app", r.app, "token", r.token)...)
	c.data(stream, end, "\x00\x00\x00\x00\x00")
}

// served reads the answer to a call to its end. Frames of other streams are kept.
func (c *frameConn) served(stream uint32) {
	c.t.Helper()
	for !c.ended[stream] {
		c.next()
	}
}

// goAway reads until a GOAWAY.
func (c *frameConn) goAway() *http2.GoAwayFrame {
	c.t.Helper()
	for len(c.goAways) == 0 {
		c.next()
	}
	found := c.goAways[0]
	c.goAways = c.goAways[1:]
	return found
}

// answerPings answers those that came, and from now on at once.
func (c *frameConn) answerPings() {
	for _, p := range c.pings {
		c.housekeep(p)
	}
	c.answering = true
}

// next reads a frame: ends of calls that succeeded, GOAWAYs and pings are noted.
func (c *frameConn) next() {
	c.t.Helper()
	frame, err := c.framer.ReadFrame()
	if err != nil {
		c.t.Fatalf("reading frames: %v; calls that have ended: %v", err, c.ended)
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			if got := (block{f.Fields, true}).get("grpc-status"); got != "0" {
				c.t.Errorf("the call of stream %d ended with %q: %v", f.StreamID, got, f.Fields)
			}
			c.ended[f.StreamID] = true
		}
	case *http2.RSTStreamFrame:
		c.t.Fatalf("stream %d was reset: %v", f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		c.goAways = append(c.goAways, &http2.GoAwayFrame{FrameHeader: f.FrameHeader, LastStreamID: f.LastStreamID, ErrCode: f.ErrCode})
	case *http2.PingFrame:
		switch {
		case c.answering:
			c.housekeep(f)
		case !f.IsAck():
			c.pings = append(c.pings, &http2.PingFrame{FrameHeader: f.FrameHeader, Data: f.Data})
		}
	default:
		c.housekeep(f)
	}
}

// waitForCall waits until a call is under way at the backend.
func waitForCall(t *testing.T, b *testbackend.Server) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for calls := 0; calls == 0; {
		for _, c := range b.Take() {
			if c.Method == echoBidi {
				calls++
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no call came")
		}
	}
}

// A backend's GOAWAY leaves out a call that is on its way there: it is served
// over another connection, whether it may be repeated or not, and once.
func TestFault6CallsThatABackendLeavesOut(t *testing.T) {
	t.Parallel()
	b := startLeaving(t)
	r := newLedgerRig(t, nil, ledgerConfig("retry: {max_attempts: 1}", "endpoints: ["+b.addr+"]"))
	for range 5 {
		must(t, r.booking())
	}
	if served, left := b.figures(); served != 5 || left == 0 {
		t.Errorf("%d calls were served, %d left out", served, left)
	}
}

// leaving is a backend that serves one call on each of its connections, and
// leaves the next one out.
type leaving struct {
	addr string

	mu           sync.Mutex
	served, left int
}

func (b *leaving) figures() (served, left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served, b.left
}

func startLeaving(t *testing.T) *leaving {
	t.Helper()
	var listener net.ListenConfig
	lis, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &leaving{addr: lis.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				b.serve(t, conn)
			})
		}
	})
	t.Cleanup(func() { _ = lis.Close(); serving.Wait() })
	return b
}

func (b *leaving) serve(t *testing.T, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	stop := t.Context().Done()
	closing := make(chan struct{})
	defer close(closing)
	go func() { // at the end of the test
		select {
		case <-stop:
			_ = conn.Close()
		case <-closing:
		}
	}()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	c := newFrameConn(t, conn)
	_ = c.framer.WriteSettings()
	var last uint32
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if !strings.HasPrefix((block{f.Fields, false}).get(":path"), "/ledger.") {
				c.headers(f.StreamID, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "12")
				continue // a question for its health
			}
			if last > 0 {
				b.count(func() { b.left++ })
				_ = c.framer.WriteGoAway(last, http2.ErrCodeNo, nil)
				continue
			}
			last = f.StreamID
		case *http2.DataFrame:
			if f.StreamEnded() && f.StreamID == last {
				b.count(func() { b.served++ })
				c.headers(f.StreamID, false, ":status", "200", "content-type", "application/grpc")
				c.data(f.StreamID, false, "\x00\x00\x00\x00\x00")
				c.headers(f.StreamID, true, "grpc-status", "0")
			}
		default:
			c.housekeep(f)
		}
	}
}

func (b *leaving) count(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

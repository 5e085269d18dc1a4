package flood

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// conn is one connection. Only what a flood needs of HTTP/2 is here: written by
// hand, a call costs the driver a few microseconds.
type conn struct {
	plan  Plan
	tally *Tally
	raw   net.Conn

	mu             sync.Mutex // guards what follows, and writing
	out            *bufio.Writer
	framer         *http2.Framer
	encoder        *hpack.Encoder
	block          bytes.Buffer
	next           uint32
	open           map[uint32]*call
	sending        []*call // those with a body that is not out yet
	max            int     // streams at once
	window         int64   // for what is sent, over all streams
	initial        int64   // a stream's window at first
	unacknowledged int     // what came in, and was not acknowledged yet
	waiting        []time.Time
	over           bool
}

// call is one that was begun: when it was, and what is known of its answer.
type call struct {
	id     uint32
	due    time.Time
	sent   time.Time // when it was due, or, where that is the driver's fault, sent
	status string
	window int64
	left   []byte // of the body
	gone   bool
}

// ample is a window that nobody fills.
const ample = 1 << 30

// frameSize is the most that servers take in one frame unless they say otherwise.
const frameSize = 16 << 10

func dial(ctx context.Context, p Plan, t *Tally) (*conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.Target)
	if err != nil {
		return nil, err
	}
	c := &conn{
		plan: p, tally: t, raw: raw, out: bufio.NewWriterSize(raw, frameSize), next: 1,
		open: map[uint32]*call{}, max: 100, window: 65535, initial: 65535,
	}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(raw, frameSize))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.SetReuseFrames()
	c.encoder = hpack.NewEncoder(&c.block)
	settings := []http2.Setting{{ID: http2.SettingEnablePush, Val: 0}}
	if !p.Unread {
		settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: ample})
	}
	_, err = io.WriteString(c.out, http2.ClientPreface)
	return c, errors.Join(err, c.framer.WriteSettings(settings...), c.framer.WriteWindowUpdate(0, ample), c.out.Flush())
}

// offer begins calls when they are due, and gives up those that take too long.
func (c *conn) offer(nth int) error {
	end := c.tally.begin.Add(c.plan.Length)
	defer func() { _ = c.raw.Close() }()
	random := rand.New(rand.NewPCG(uint64(nth), uint64(c.plan.Conns))) //nolint:gosec // the same instants in each run
	gap := func() time.Duration {
		return time.Duration(random.ExpFloat64() * float64(time.Second) * float64(c.plan.Conns) / c.plan.Rate)
	}
	var due time.Time
	if c.plan.Rate > 0 {
		due = c.tally.begin.Add(gap())
	}
	own := c.plan.Open / c.plan.Conns // of those that are kept open
	if nth < c.plan.Open%c.plan.Conns {
		own++
	}
	const most = 2 * time.Millisecond
	wake := time.NewTimer(0)
	defer wake.Stop()
	for swept := time.Now(); ; {
		<-wake.C
		now := time.Now()
		c.mu.Lock()
		if c.plan.Rate > 0 {
			for ; !due.After(now) && due.Before(end); due = due.Add(gap()) {
				c.add(due)
			}
		} else if now.Before(end) {
			for len(c.open)+len(c.waiting) < own {
				c.add(now)
			}
		}
		if now.Sub(swept) > 50*time.Millisecond {
			swept = now
			c.giveUp(now)
		}
		err := c.begin()
		c.over = err != nil || now.After(end) && (c.plan.Rate <= 0 || len(c.open) == 0 && len(c.waiting) == 0)
		over := c.over
		c.mu.Unlock()
		if over {
			return err
		}
		pause := most
		if c.plan.Rate > 0 {
			pause = max(0, min(most, time.Until(due)))
		}
		wake.Reset(pause)
	}
}

func (c *conn) add(due time.Time) {
	c.waiting = append(c.waiting, due)
	c.tally.count(due, func(s *Counts) { s.Begun++ })
}

// giveUp resets calls whose callers have lost their patience.
func (c *conn) giveUp(now time.Time) {
	for id, call := range c.open {
		if now.Sub(call.due) >= c.plan.Patience {
			c.forget(call)
			_ = c.framer.WriteRSTStream(id, http2.ErrCodeCancel) // begin's Flush tells
			c.tally.count(call.due, func(s *Counts) { s.Late++ })
		}
	}
	for len(c.waiting) > 0 && now.Sub(c.waiting[0]) >= c.plan.Patience {
		c.tally.count(c.waiting[0], func(s *Counts) { s.Late++ })
		c.waiting = c.waiting[1:]
	}
}

func (c *conn) forget(call *call) {
	call.gone, call.left = true, nil
	delete(c.open, call.id)
}

// begin sends those that wait, as far as the server takes them.
func (c *conn) begin() error {
	for len(c.waiting) > 0 && len(c.open) < c.max && c.next < math.MaxInt32 {
		due := c.waiting[0]
		c.waiting = c.waiting[1:]
		sent := due
		// The driver's own lateness is not the server's: its timers are too coarse.
		if now := time.Now(); now.Sub(due) < 5*time.Millisecond {
			sent = now
		}
		k := &call{id: c.next, due: due, sent: sent, window: c.initial, left: c.plan.Body}
		c.next += 2
		c.open[k.id] = k
		if err := c.request(k); err != nil {
			return err
		}
	}
	if err := c.send(); err != nil {
		return err
	}
	return c.out.Flush()
}

func (c *conn) request(k *call) error {
	c.block.Reset()
	for _, f := range [][2]string{
		{":method", c.plan.Verb}, {":scheme", "http"}, {":path", c.plan.Path},
		{":authority", "gateway.example"}, {"user-agent", "flood/1"},
	} {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	for _, f := range c.plan.Header {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if len(k.left) > 0 {
		c.sending = append(c.sending, k)
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: k.id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: len(k.left) == 0,
	})
}

// send sends of the bodies what the server takes, a frame of each in turn.
func (c *conn) send() error {
	for more := true; more; {
		more = false
		kept := c.sending[:0]
		for _, k := range c.sending {
			n := min(int64(len(k.left)), frameSize, c.window, k.window)
			if n > 0 && !k.gone {
				if err := c.framer.WriteData(k.id, n == int64(len(k.left)), k.left[:n]); err != nil {
					return err
				}
				k.left = k.left[n:]
				k.window -= n
				c.window -= n
				more = true
			}
			if len(k.left) > 0 {
				kept = append(kept, k)
			}
		}
		c.sending = kept
	}
	return nil
}

// read takes answers in until the connection is closed.
func (c *conn) read() error {
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			over := c.over
			c.mu.Unlock()
			if over {
				return nil
			}
			_ = c.raw.Close()
			return err
		}
		err = c.take(frame)
		c.mu.Unlock()
		if err != nil {
			_ = c.raw.Close()
			return err
		}
	}
}

func (c *conn) take(frame http2.Frame) error {
	id := frame.Header().StreamID
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if n, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
			c.max = int(n)
		}
		if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
			for _, k := range c.open {
				k.window += int64(n) - c.initial
			}
			c.initial = int64(n)
		}
		return errors.Join(c.framer.WriteSettingsAck(), c.send(), c.out.Flush())
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return errors.Join(c.framer.WritePing(true, f.Data), c.out.Flush())
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.window += int64(f.Increment)
		} else if k := c.open[id]; k != nil {
			k.window += int64(f.Increment)
		}
		return errors.Join(c.send(), c.out.Flush())
	case *http2.MetaHeadersFrame:
		k := c.open[id]
		if k == nil {
			return nil
		}
		for _, h := range f.Fields {
			if h.Name == ":status" && k.status == "" || h.Name == "grpc-status" {
				k.status = h.Value
			}
		}
		if f.StreamEnded() {
			return c.end(k)
		}
	case *http2.DataFrame:
		if c.unacknowledged += len(f.Data()); c.unacknowledged > ample/2 {
			if err := c.framer.WriteWindowUpdate(0, uint32(c.unacknowledged)); err != nil {
				return err
			}
			c.unacknowledged = 0
		}
		if k := c.open[id]; k != nil && f.StreamEnded() {
			return c.end(k)
		}
	case *http2.RSTStreamFrame:
		if k := c.open[id]; k != nil {
			return c.end(k)
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server says goodbye: %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}

// end counts a call that was answered, and has the next one begin where so many
// are kept open.
func (c *conn) end(k *call) error {
	now := time.Now()
	c.forget(k)
	took := now.Sub(k.sent)
	c.tally.count(k.due, func(s *Counts) {
		switch {
		case took > c.plan.Patience:
			s.Late++
		case k.status == "200" || k.status == "0":
			s.Served++
			s.Took = append(s.Took, took)
		case k.status == "503" || k.status == "8":
			s.Refused++
		default:
			s.Failed++
		}
	})
	if c.plan.Rate > 0 || c.over || now.After(c.tally.begin.Add(c.plan.Length)) {
		return nil
	}
	c.add(now)
	return c.begin()
}

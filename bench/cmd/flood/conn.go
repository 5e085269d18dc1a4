package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// tally counts what becomes of calls, by the second in which they were to begin.
type tally struct {
	begin time.Time

	mu      sync.Mutex
	seconds []second
}

func (t *tally) of(due time.Time) *second {
	return &t.seconds[min(int(due.Sub(t.begin)/time.Second), len(t.seconds)-1)]
}

func (t *tally) print(w io.Writer, skip int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all second
	n := 0
	for i := range t.seconds {
		s := &t.seconds[i]
		if s.begun == 0 {
			continue
		}
		s.print(w, fmt.Sprint(i))
		if i >= skip {
			all.add(*s)
			n++
		}
	}
	all.print(w, "all")
	if n > 0 {
		_, _ = fmt.Fprintf(w, "served %.0f/s of %.0f/s\n", float64(all.served)/float64(n), float64(all.begun)/float64(n))
	}
}

// conn is one connection. Only what flood needs of HTTP/2 is here: written by
// hand, a call costs the driver a few microseconds.
type conn struct {
	plan
	tally *tally
	raw   net.Conn

	mu      sync.Mutex // guards what follows, and writing
	out     *bufio.Writer
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	open    map[uint32]call
	max     int   // streams at once
	window  int64 // for what is sent
	waiting []time.Time
	over    bool
}

// call is one that was begun: when it was due, and what is known of its answer.
type call struct {
	due    time.Time
	status string
}

func dial(ctx context.Context, p plan, t *tally) (*conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return nil, err
	}
	c := &conn{plan: p, tally: t, raw: raw, out: bufio.NewWriterSize(raw, 64<<10), next: 1, open: map[uint32]call{}, max: 100, window: 65535}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(raw, 64<<10))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	_, err = io.WriteString(c.out, http2.ClientPreface)
	return c, errors.Join(err,
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}),
		c.framer.WriteWindowUpdate(0, 1<<30), c.out.Flush())
}

// offer begins calls when they are due, and gives up those that take too long.
func (c *conn) offer(nth int) error {
	gap := time.Duration(float64(time.Second) * float64(c.conns) / c.rate)
	due := c.tally.begin.Add(gap * time.Duration(nth) / time.Duration(c.conns))
	end := c.tally.begin.Add(c.length)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	defer func() { _ = c.raw.Close() }()
	for swept := time.Now(); ; {
		now := <-tick.C
		c.mu.Lock()
		for ; !due.After(now) && due.Before(end); due = due.Add(gap) {
			c.waiting = append(c.waiting, due)
			c.count(due, func(s *second) { s.begun++ })
		}
		if now.Sub(swept) > 50*time.Millisecond {
			swept = now
			c.giveUp(now)
		}
		err := c.begin()
		c.over = err != nil || now.After(end) && len(c.open) == 0 && len(c.waiting) == 0
		over := c.over
		c.mu.Unlock()
		if over {
			return err
		}
	}
}

func (c *conn) count(due time.Time, add func(*second)) {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	add(c.tally.of(due))
}

// giveUp resets calls whose callers have lost their patience.
func (c *conn) giveUp(now time.Time) {
	for id, call := range c.open {
		if now.Sub(call.due) >= c.patience {
			delete(c.open, id)
			_ = c.framer.WriteRSTStream(id, http2.ErrCodeCancel) // begin's Flush tells
			c.count(call.due, func(s *second) { s.late++ })
		}
	}
	for len(c.waiting) > 0 && now.Sub(c.waiting[0]) >= c.patience {
		c.count(c.waiting[0], func(s *second) { s.late++ })
		c.waiting = c.waiting[1:]
	}
}

// begin sends those that wait, as far as the server takes them.
func (c *conn) begin() error {
	for len(c.waiting) > 0 && len(c.open) < c.max && c.window > 1<<10 {
		due := c.waiting[0]
		c.waiting = c.waiting[1:]
		id := c.next
		c.next += 2
		c.open[id] = call{due: due}
		if err := c.request(id); err != nil {
			return err
		}
	}
	return c.out.Flush()
}

func (c *conn) request(id uint32) error {
	c.block.Reset()
	method, grpc := "GET", c.text != ""
	if grpc {
		method = "POST"
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: method},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: c.path},
		{Name: ":authority", Value: "gateway.example"},
		{Name: "user-agent", Value: "flood/1"},
	}
	if grpc {
		fields = append(fields, hpack.HeaderField{Name: "content-type", Value: "application/grpc"}, hpack.HeaderField{Name: "te", Value: "trailers"})
	}
	for _, f := range fields {
		_ = c.encoder.WriteField(f) // into memory
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: !grpc})
	if err != nil || !grpc {
		return err
	}
	message := append([]byte{10, byte(len(c.text))}, c.text...)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	c.window -= int64(len(body))
	return c.framer.WriteData(id, true, body)
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
			return err
		}
		err = c.take(frame)
		c.mu.Unlock()
		if err != nil {
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
		return errors.Join(c.framer.WriteSettingsAck(), c.out.Flush())
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return errors.Join(c.framer.WritePing(true, f.Data), c.out.Flush())
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.window += int64(f.Increment)
		}
	case *http2.MetaHeadersFrame:
		call, ok := c.open[id]
		if !ok {
			return nil
		}
		for _, h := range f.Fields {
			if h.Name == ":status" && call.status == "" || h.Name == "grpc-status" {
				call.status = h.Value
			}
		}
		c.open[id] = call
		if f.StreamEnded() {
			c.end(id)
		}
	case *http2.DataFrame:
		if f.StreamEnded() {
			c.end(id)
		}
	case *http2.RSTStreamFrame:
		c.end(id)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server says goodbye: %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}

// end counts a call that was answered.
func (c *conn) end(id uint32) {
	call, ok := c.open[id]
	if !ok {
		return
	}
	delete(c.open, id)
	took := time.Since(call.due)
	c.count(call.due, func(s *second) {
		switch {
		case took > c.patience:
			s.late++
		case call.status == "200" || call.status == "0":
			s.served++
			s.took = append(s.took, took)
		case call.status == "503" || call.status == "8":
			s.refused++
		default:
			s.failed++
		}
	})
}

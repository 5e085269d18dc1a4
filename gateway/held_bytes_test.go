package gateway

import (
	"context"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

// sendingPeer sends messages of one size.
type sendingPeer struct {
	silentPeer

	size int
}

func (p sendingPeer) recvMsg() (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(make([]byte, p.size))}, nil
}

// What a body takes of the bytes that may be held is what is held of it: a whole
// one, as soon as it is announced; of a stream each message; nothing of one that is
// refused for its size, which says so.
func TestHeldOfBodies(t *testing.T) {
	t.Parallel()
	const most, size = 1 << 20, 100 << 10
	for name, tc := range map[string]struct {
		streams         bool
		length, maxBody int64
		held            int64 // while the call goes on
		reason          string
	}{
		"announced":         {length: size, held: 2 * size},
		"not announced":     {length: -1, held: size},
		"too much":          {length: most, reason: "OVERLOADED"},
		"stream":            {streams: true, length: 100 * most, held: size},
		"larger than a may": {length: most, maxBody: size, held: size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _ := sheddingGateway(10)
			bytes := limitedBytes(g, most)
			r := testRoute()
			r.ClientStreams = tc.streams
			c := callOf(r, "acme")
			c.peer, c.length = sendingPeer{size: size}, tc.length
			err := g.pipeline(r, func(_ context.Context, c *Call) error {
				c.bound.maxBody = tc.maxBody
				for range 3 {
					msg, err := c.RecvMsg()
					if err != nil {
						return err
					}
					msg.Free()
					if held := bytes(); held != tc.held {
						t.Errorf("%d bytes are held, want %d", held, tc.held)
					}
					if !tc.streams {
						break
					}
				}
				return nil
			})(t.Context(), c)
			if f := describe(err); f == nil && tc.reason != "" || f != nil && f.Reason != tc.reason {
				t.Errorf("got %+v, want %q", f, tc.reason)
			}
			if held := bytes(); held != 0 {
				t.Errorf("%d bytes are held when the call is over", held)
			}
		})
	}
}

// limitedBytes bounds what a gateway holds, and tells what it does.
func limitedBytes(g *Gateway, most int64) (held func() int64) {
	g.shedder.bytes = limits.NewBudget(most)
	return g.shedder.bytes.Held
}

// A body that is longer than any may be is not taken for one that is to be held.
func TestLengthOfBodies(t *testing.T) {
	t.Parallel()
	f := &httpFront{cfg: config.HTTP{MaxBodySize: 100}}
	for length, want := range map[int64]int64{-1: -1, 0: 0, 100: 100, 101: 0, 1 << 62: 0} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
		r.ContentLength = length
		var c Call
		f.begin(&c, protocolJSON, silentPeer{}, httptest.NewRecorder(), r)
		if c.length != want {
			t.Errorf("of %d bytes, %d are to be held, want %d", length, c.length, want)
		}
	}
}

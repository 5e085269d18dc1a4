package rpcproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
)

// strictPool is a pool that notices buffers given back twice, spoils those that
// are given back, so that whoever still reads one sees it, and never gives one
// out again.
type strictPool struct {
	t   testing.TB
	mu  sync.Mutex
	out map[*byte]int // buffers out, by their first byte
	all int
}

func newStrictPool(t testing.TB) *strictPool {
	t.Helper()
	return &strictPool{t: t, out: map[*byte]int{}}
}

func (p *strictPool) Get(n int) *[]byte {
	b := make([]byte, n, max(n, 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out[&b[:1][0]]++
	p.all++
	return &b
}

func (p *strictPool) Put(b *[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := &(*b)[:1][0]
	if p.out[first] != 1 {
		p.t.Errorf("a buffer of %d bytes was given back that is not out", len(*b))
	}
	delete(p.out, first)
	full := (*b)[:cap(*b)]
	for i := range full {
		full[i] = 0xdd
	}
}

// check waits until all buffers are back.
func (p *strictPool) check() {
	p.t.Helper()
	waitFor(p.t, "all buffers to be given back", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.out) == 0
	})
	if p.all == 0 {
		p.t.Error("no buffer came from the pool: the test tests nothing")
	}
}

// message makes a message of n bytes in two buffers of the pool.
func (p *strictPool) message(n, seed int) mem.BufferSlice {
	var m mem.BufferSlice
	for _, part := range []int{n / 2, n - n/2} {
		b := p.Get(part)
		for i := range *b {
			(*b)[i] = byte(i + seed)
		}
		m = append(m, mem.NewBuffer(b, p))
		seed += part
	}
	return m
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + seed)
	}
	return b
}

// requestPool is where request messages come from. grpc-go (v1.85) now and then
// keeps a reference on one that it sends at the very moment the header comes
// (clientStream.bufferForRetryLocked after a commit): the buffer is left to the
// garbage collector. Those of streaming callers are not waited for.
func requestPool(r Request, awaited, other *strictPool) *strictPool {
	if r.ClientStreams {
		return other
	}
	return awaited
}

// Messages cross from a gRPC server through the proxy and back, all of whose
// buffers come from strict pools.
func TestBufferOwnership(t *testing.T) {
	const size, count = 80_000, 8
	pool, other := newStrictPool(t), newStrictPool(t)
	s := serve(t, echo, experimental.BufferPool(pool))
	b := newBackend(t, s.addr, nil, Options{dialOptions: []grpc.DialOption{experimental.WithBufferPool(pool)}})
	for _, r := range roads() {
		for _, compressor := range []string{"", "gzip"} {
			t.Run(road(r)+" "+compressor, func(t *testing.T) {
				r.Compressor = compressor
				n := 1
				if r.ClientStreams && r.ServerStreams {
					n = count
				}
				next := 0
				ex := &strictExchange{}
				ex.recv = func() (mem.BufferSlice, error) {
					if next == n {
						return nil, io.EOF
					}
					next++
					return requestPool(r, pool, other).message(size, next), nil
				}
				got := 0
				ex.send = func(m mem.BufferSlice) error {
					got++
					defer m.Free()
					if !bytes.Equal(m.Materialize(), pattern(size, got)) {
						return fmt.Errorf("message %d came back changed", got)
					}
					return nil
				}
				r.Method = testMethod
				if err := b.Forward(testContext(t), &r, ex); err != nil {
					t.Fatal(err)
				}
				if got != n {
					t.Errorf("%d messages came back, want %d", got, n)
				}
			})
		}
	}
	_ = b.Close()
	s.stop()
	pool.check()
}

// Failures free the messages they have. What grpc-go had received by then it
// leaves to the garbage collector.
func TestBufferOwnershipInFailures(t *testing.T) {
	const size = 80_000
	pool, other := newStrictPool(t), newStrictPool(t)
	s := serve(t, answerWith(func(context.Context) (string, error) { return string(make([]byte, size)), nil }))
	for name, change := range map[string]func(*config.Backend){
		"sent too large":     func(c *config.Backend) { c.Conn.MaxSendSize = 1000 },
		"received too large": func(c *config.Backend) { c.Conn.MaxReceiveSize = 1000 },
		"unreachable":        func(c *config.Backend) { c.Endpoints = []string{"127.0.0.1:1"} },
		"pool full":          func(c *config.Backend) { c.Pool.MaxConns = 1 },
	} {
		b := newBackend(t, s.addr, change, Options{})
		if name == "pool full" {
			for _, c := range []Credential{app("a"), app("b")} {
				lease, err := b.pool.Acquire(testContext(t), c)
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release()
			}
		}
		for _, r := range roads() {
			ex := &strictExchange{send: func(m mem.BufferSlice) error { m.Free(); return nil }}
			once := false
			ex.recv = func() (mem.BufferSlice, error) {
				if once {
					return nil, io.EOF
				}
				once = true
				return requestPool(r, pool, other).message(size, 0), nil
			}
			if err := b.Forward(testContext(t), &r, ex); err == nil {
				t.Errorf("%s, %s: no error", name, road(r))
			}
		}
	}
	pool.check()
}

func TestCodecWantsFrames(t *testing.T) {
	c := RawCodec()
	if c.Name() != "proto" {
		t.Errorf("Name = %q", c.Name())
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("Marshal takes a string")
	}
	if err := c.Unmarshal(nil, new(string)); err == nil {
		t.Error("Unmarshal takes a *string")
	}
}

func TestFrameIsFreedOnce(t *testing.T) {
	pool := newStrictPool(t)
	f := Frame{Data: pool.message(5000, 0)}
	f.Free()
	f.Free()
	f = Frame{Data: pool.message(5000, 0)}
	taken := f.Take()
	f.Free()
	if got := taken.Len(); got != 5000 {
		t.Errorf("took %d bytes", got)
	}
	taken.Free()

	// A second message into the same frame frees the first.
	var in Frame
	for range 2 {
		m := pool.message(5000, 0)
		if err := RawCodec().Unmarshal(m, &in); err != nil {
			t.Fatal(err)
		}
		m.Free()
	}
	in.Free()
	pool.check()
}

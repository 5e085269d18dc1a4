package rpcproxy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

// receive reads up to n messages; fewer where the caller has no more.
func receive(ss grpc.ServerStream, n int) (got []string, err error) {
	for len(got) < n {
		var f Frame
		if err := ss.RecvMsg(&f); errors.Is(err, io.EOF) {
			return got, nil
		} else if err != nil {
			return got, err
		}
		got = append(got, string(f.Data.Materialize()))
		f.Free()
	}
	return got, nil
}

// An attempt fails after it has had some of the caller's messages. The next one
// gets all of them, in order and once each.
func TestStreamIsSentAgain(t *testing.T) {
	texts := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("message ", i))
		}
		return all
	}
	for _, count := range []int{0, 1, 2, 50} {
		for _, reads := range []int{0, 1, 25, 1000} {
			t.Run(fmt.Sprintf("%d messages, lost after %d", count, reads), func(t *testing.T) {
				t.Parallel()
				var attempts atomic.Int32
				var got []string
				s := serve(t, func(_ any, ss grpc.ServerStream) error {
					if attempts.Add(1) < 3 {
						_, _ = receive(ss, reads)
						return status.Error(codes.Unavailable, "going")
					}
					var err error
					if got, err = receive(ss, count+1); err != nil {
						return err
					}
					return ss.SendMsg(&Frame{Data: message("ok")})
				})
				b := newBackend(t, s.addr, quick, Options{})
				ex := &exchange{requests: texts(count)}
				err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, Idempotent: true}, ex)
				if err != nil || !slices.Equal(got, texts(count)) || !slices.Equal(ex.messages, []string{"ok"}) {
					t.Errorf("Forward: %v after %d attempts; the last one got %d messages of %d: %q",
						err, attempts.Load(), len(got), count, got)
				}
			})
		}
	}
}

// The caller says nothing more until it is answered: what it said before is sent
// again though the pump waits for it.
func TestStreamIsSentAgainWhileTheCallerWaits(t *testing.T) {
	var attempts atomic.Int32
	s := serve(t, func(srv any, ss grpc.ServerStream) error {
		if attempts.Add(1) == 1 {
			_, _ = receive(ss, 1)
			return status.Error(codes.Unavailable, "going")
		}
		return echo(srv, ss)
	})
	b := newBackend(t, s.addr, quick, Options{})
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	sent := 0
	ex := &exchange{
		recv: func() (mem.BufferSlice, error) {
			<-turn
			if sent == 10 {
				return nil, io.EOF
			}
			sent++
			return message(fmt.Sprint(sent)), nil
		},
		onMsg: func(string) error { turn <- struct{}{}; return nil },
	}
	err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true, Idempotent: true}, ex)
	if err != nil || attempts.Load() != 2 || strings.Join(ex.messages, " ") != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("Forward: %v after %d attempts, answers %q", err, attempts.Load(), ex.messages)
	}
}

// More than may be kept was sent, or the answer has begun: there is no other
// attempt.
func TestStreamIsNotSentAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		replay config.Size
		header bool
		want   int32
	}{
		"kept":              {100, false, 3},
		"too much":          {99, false, 1},
		"nothing is kept":   {0, false, 1},
		"the answer begins": {100, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			s := serve(t, func(_ any, ss grpc.ServerStream) error {
				attempts.Add(1)
				_, _ = receive(ss, 11)
				if tt.header {
					_ = ss.SendHeader(metadata.MD{})
				}
				return status.Error(codes.Unavailable, "going")
			})
			b := newBackend(t, s.addr, func(c *config.Backend) { quick(c); c.Retry.ReplaySize = tt.replay }, Options{})
			ex := &exchange{requests: slices.Repeat([]string{"0123456789"}, 10)}
			err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, Idempotent: true}, ex)
			if status.Code(err) != codes.Unavailable || attempts.Load() != tt.want {
				t.Errorf("Forward: %v after %d attempts, want %d", err, attempts.Load(), tt.want)
			}
		})
	}
}

// counted is a message that knows how many hold it.
type counted struct {
	mem.Buffer

	refs *atomic.Int64
}

func (c counted) Ref()  { c.refs.Add(1); c.Buffer.Ref() }
func (c counted) Free() { c.refs.Add(-1); c.Buffer.Free() }

// However a stream ends, and however often it was sent, each message is freed,
// and what is kept is given up as soon as it is not needed.
func TestStreamFreesItsMessages(t *testing.T) {
	const count = 40
	for name, tt := range map[string]struct {
		answer func(n int32, ss grpc.ServerStream) error
		replay config.Size
		early  bool // attempts end before all was sent
	}{
		"at once": {func(_ int32, ss grpc.ServerStream) error {
			_, err := receive(ss, count+1)
			return err
		}, 1 << 20, false},
		"with the third attempt": {func(n int32, ss grpc.ServerStream) error {
			if n < 3 {
				_, _ = receive(ss, int(n*15))
				return status.Error(codes.Unavailable, "")
			}
			_, err := receive(ss, count+1)
			return err
		}, 1 << 20, true},
		"never": {func(int32, grpc.ServerStream) error { return status.Error(codes.Unavailable, "") }, 1 << 20, true},
		"more than is kept": {func(_ int32, ss grpc.ServerStream) error {
			_, err := receive(ss, count+1)
			return err
		}, 50, false},
		"the answer comes first": {func(_ int32, ss grpc.ServerStream) error {
			_ = ss.SendHeader(nil)
			_, err := receive(ss, count+1)
			return err
		}, 1 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int32
			var refs atomic.Int64
			s := serve(t, func(_ any, ss grpc.ServerStream) error { return tt.answer(attempts.Add(1), ss) })
			b := newBackend(t, s.addr, func(c *config.Backend) { quick(c); c.Retry.ReplaySize = tt.replay }, Options{})
			for range 20 {
				sent := 0
				ex := &exchange{recv: func() (mem.BufferSlice, error) {
					if sent == count {
						return nil, io.EOF
					}
					sent++
					refs.Add(1)
					return mem.BufferSlice{counted{mem.SliceBuffer("0123456789"), &refs}}, nil
				}}
				_ = b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true, Idempotent: true}, ex)
			}
			// grpc-go leaves a message to the garbage collector that it is given for a
			// stream that has just ended (loopyWriter.preprocessData), which may be one
			// of each attempt.
			var left int64
			if tt.early {
				left = int64(attempts.Load())
			}
			waitFor(t, "all to be freed", func() bool { return refs.Load() <= left })
		})
	}
}

// A failure of the exchange between two attempts ends the call.
func TestExchangeFailsBetweenAttempts(t *testing.T) {
	failing := make(chan struct{})
	var attempts atomic.Int32
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		attempts.Add(1)
		defer close(failing)
		return status.Error(codes.Unavailable, "")
	})
	b := newBackend(t, s.addr, func(c *config.Backend) {
		quick(c)
		c.Retry.Backoff, c.Retry.MaxBackoff = 300*time.Millisecond, 300*time.Millisecond
	}, Options{})
	b.retrier.random = func() float64 { return 1 }
	ex := &exchange{recv: func() (mem.BufferSlice, error) {
		<-failing
		return nil, errExchange
	}}
	served := &Served{}
	err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, Idempotent: true, Served: served}, ex)
	if !errors.Is(err, errExchange) && status.Code(err) != codes.Unavailable || attempts.Load() != 1 || served.Attempts != 1 {
		t.Errorf("Forward: %T %v after %d attempts, told of %d", err, err, attempts.Load(), served.Attempts)
	}
}

// Many streams that are lost at random points, all at once.
func TestStreamsAreSentAgainUnderLoad(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(ss.Context())
		if previous := md[previousKey]; len(previous) == 0 || previous[0] == "1" {
			_, _ = receive(ss, int(n.Add(1)%31))
			return status.Error(codes.Unavailable, "")
		}
		got, err := receive(ss, 1000)
		if err != nil {
			return err
		}
		return ss.SendMsg(&Frame{Data: message(strings.Join(got, ","))})
	})
	b := newBackend(t, s.addr, func(c *config.Backend) {
		quick(c)
		c.Retry.Budget = config.RetryBudget{Ratio: 1, MinPerSecond: 1000}
		c.Ejection.ConsecutiveFailures = 0
	}, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 20 {
				var texts []string
				for i := range 30 {
					texts = append(texts, fmt.Sprint(g, ":", i))
				}
				ex := &exchange{requests: slices.Clone(texts)}
				err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, Idempotent: true}, ex)
				if err != nil || len(ex.messages) != 1 || ex.messages[0] != strings.Join(texts, ",") {
					t.Errorf("Forward: %v, answer %.80q", err, ex.messages)
				}
			}
		})
	}
	wg.Wait()
}

package rpcproxy

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
)

// benchExchange is a caller that costs nothing.
type benchExchange struct {
	request mem.BufferSlice
	done    bool
}

func (e *benchExchange) RecvMsg() (mem.BufferSlice, error) {
	if e.done {
		return nil, io.EOF
	}
	e.done = true
	return e.request, nil
}
func (e *benchExchange) SendHeader(metadata.MD) error    { return nil }
func (e *benchExchange) SendMsg(m mem.BufferSlice) error { m.Free(); return nil }
func (e *benchExchange) SetTrailer(metadata.MD)          {}

// cpu reports the processor time of this process per call, which other load on
// the machine disturbs less than it does the time on the clock.
func cpu(b *testing.B) (report func()) {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := now()
	return func() { b.ReportMetric(float64(now()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkUnary compares Forward with the bare Invoke that it is built on,
// against a server in the same process, which is included in the numbers.
func BenchmarkUnary(b *testing.B) {
	s := serve(b, func(_ any, ss grpc.ServerStream) error {
		var f Frame
		if err := ss.RecvMsg(&f); err != nil {
			return err
		}
		defer f.Free()
		return ss.SendMsg(&f)
	})
	request := mem.BufferSlice{mem.SliceBuffer(make([]byte, 100))}
	md := metadata.Pairs("x-request-id", "1234567890")
	credential := Credential{App: "acme", TokenID: "id", Token: "rpg_0123456789_0123456789012345678901234567890123456789"}

	b.Run("bare invoke", func(b *testing.B) {
		conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		report := cpu(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				ctx = metadata.NewOutgoingContext(ctx, md)
				ctx = metadata.AppendToOutgoingContext(ctx, "app", credential.App, "token", credential.Token)
				in, out := Frame{Data: request}, Frame{}
				var header, trailer metadata.MD
				if err := conn.Invoke(ctx, testMethod, &in, &out, grpc.ForceCodecV2(RawCodec()), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
					b.Error(err)
				}
				out.Free()
				cancel()
			}
		})
		report()
	})
	for name, key := range map[string]string{"forward": "credential", "forward, shared": "shared"} {
		b.Run(name, func(b *testing.B) {
			backend := newBackend(b, s.addr, func(c *config.Backend) { c.Pool.Key = key }, Options{Registerer: prometheus.NewRegistry()})
			report := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					r := &Request{Method: testMethod, Metadata: md, Credential: credential}
					if err := backend.Forward(ctx, r, &benchExchange{request: request}); err != nil {
						b.Error(err)
					}
				}
			})
			report()
		})
	}
}

// BenchmarkStream sends many messages over one stream, there and back.
func BenchmarkStream(b *testing.B) {
	s := serve(b, echo)
	backend := newBackend(b, s.addr, nil, Options{})
	request := mem.BufferSlice{mem.SliceBuffer(make([]byte, 100))}
	n := 0
	ex := &strictExchange{send: func(m mem.BufferSlice) error { m.Free(); return nil }}
	ex.recv = func() (mem.BufferSlice, error) {
		if n == b.N {
			return nil, io.EOF
		}
		n++
		return request, nil
	}
	b.ReportAllocs()
	r := &Request{Method: testMethod, ClientStreams: true, ServerStreams: true}
	if err := backend.Forward(context.Background(), r, ex); err != nil {
		b.Fatal(err)
	}
}

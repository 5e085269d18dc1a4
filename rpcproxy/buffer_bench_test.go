package rpcproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
)

// BenchmarkReadBuffer is what the size of a connection's read buffer costs: a small
// call, a large one, and a stream of small messages, which come many at once. The
// server is in the same process, and its part is in the figures.
func BenchmarkReadBuffer(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, size := range []config.Size{1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10} {
			backend := bufferedBackend(b, secure, size)
			call := func(b *testing.B, r Request, n int) {
				request := mem.BufferSlice{mem.SliceBuffer(make([]byte, n))}
				report := cpu(b)
				for range b.N {
					if err := backend.Forward(context.Background(), &r, &benchExchange{request: request}); err != nil {
						b.Fatal(err)
					}
				}
				report()
			}
			name := fmt.Sprintf("tls %v/%d KiB", secure, size>>10)
			b.Run(name+"/100 B", func(b *testing.B) { call(b, Request{Method: testMethod}, 100) })
			b.Run(name+"/100 KB", func(b *testing.B) { call(b, Request{Method: testMethod}, 100_000) })
			b.Run(name+"/stream", func(b *testing.B) {
				call(b, Request{Method: testMethod + "s", ServerStreams: true}, 100)
			})
		}
	}
}

// bufferedBackend answers a call with what it sends, and one of testMethod + "s"
// with that a thousand times.
func bufferedBackend(b *testing.B, secure bool, size config.Size) *Backend {
	b.Helper()
	var o []grpc.ServerOption
	ca := newAuthority(b)
	if secure {
		cert, err := tls.LoadX509KeyPair(ca.issue("server", x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}))
		ca.must(err)
		o = append(o, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})))
	}
	s := serve(b, func(_ any, ss grpc.ServerStream) error {
		var f Frame
		if err := ss.RecvMsg(&f); err != nil {
			return err
		}
		defer f.Free()
		times := 1
		if method, _ := grpc.MethodFromServerStream(ss); method != testMethod {
			times = 1000
		}
		for range times {
			if err := ss.SendMsg(&Frame{Data: message(string(f.Data.Materialize()))}); err != nil {
				return err
			}
		}
		return nil
	}, o...)
	return newBackend(b, s.addr, func(c *config.Backend) {
		c.Conn.ReadBuffer = size
		if secure {
			c.TLS = &config.ClientTLS{CAFile: ca.file}
		}
	}, Options{})
}

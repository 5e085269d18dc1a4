package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Fault 8: who does not read a stream keeps its backend from sending, whichever
// the protocol, and one that leaves ends the call at once.
func TestFault8SlowReaderOfRPCs(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, contentType := range []string{"application/grpc-web+proto", "application/grpc-web-text", "application/connect+proto", "application/connect+json"} {
		t.Run(contentType, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{})
			message := b.Encode("Shapes", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`)
			b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
				defer close(ended)
				for {
					if err := s.Send(message); err != nil {
						return err
					}
					sent.Add(1)
				}
			})
			var dialer net.Dialer
			conn, err := dialer.DialContext(t.Context(), "tcp", r.HTTP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := enveloped(0, "")
			if strings.HasSuffix(contentType, "text") {
				body = "AAAAAAA="
			}
			if strings.HasSuffix(contentType, "json") {
				body = enveloped(0, "{}")
			}
			_, err = fmt.Fprintf(conn, "POST /testbackend.Echo/ServerStream HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
				r.bearer(), contentType, len(body), body)
			if err != nil {
				t.Fatal(err)
			}
			// It stands still once all buffers on the way are full.
			last := int64(-1)
			gatewaytest.Eventually(t, func() error {
				if now := sent.Load(); now == 0 || now != last {
					last = now
					return fmt.Errorf("the backend has sent %d messages, and goes on", now)
				}
				return nil
			})
			if last > 64 {
				t.Errorf("the backend sent %d MiB to who does not read", last)
			}
			_ = conn.Close()
			waitFor(t, ended, "the end of the backend's call")
		})
	}
}

// A caller that cancels its stream ends the backend's call.
func TestHangUpRPC(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, way := range rpcWays() {
		if way.json || way.gzip {
			continue
		}
		for _, method := range []string{"Echo/Unary", "Echo/ServerStream", "Echo/ClientStream"} {
			t.Run(way.String()+" "+method, func(t *testing.T) {
				begun, ended := holdCalls(b, method)
				ctx, cancel := context.WithCancel(limited(t))
				defer cancel()
				failed := make(chan error, 1)
				client := way.client(t, r, b, method)
				go func() { failed <- callAndWait(ctx, client, method, text(b, "x")) }()
				waitFor(t, begun, "the call")
				cancel()
				if err := waitFor(t, ended, "the end of the backend's call"); !errors.Is(err, context.Canceled) {
					t.Errorf("the backend's context: %v", err)
				}
				if err := waitFor(t, failed, "the client"); connect.CodeOf(err) != connect.CodeCanceled {
					t.Errorf("the client: %v", err)
				}
			})
		}
	}
}

func callAndWait(ctx context.Context, client *echoClient, method string, message *echoMessage) error {
	switch method {
	case "Echo/Unary":
		_, err := client.CallUnary(ctx, connect.NewRequest(message))
		return err
	case "Echo/ServerStream":
		stream, err := client.CallServerStream(ctx, connect.NewRequest(message))
		if err != nil {
			return err
		}
		for stream.Receive() {
		}
		return errors.Join(stream.Err(), stream.Close())
	default:
		stream := client.CallClientStream(ctx)
		if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err := stream.CloseAndReceive()
		return err
	}
}

// A connection of HTTP/1.1 serves one call after the other, streams too.
func TestRPCConnectionsAreReused(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	way := rpcWay{protocol: "Connect"}
	var dialled atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	r.http1 = &http.Client{Transport: transport, Timeout: testLimit}
	for range 5 {
		for _, method := range []string{"Echo/Unary", "Echo/ServerStream", "Echo/ClientStream"} {
			if err := callAndWait(limited(t), way.client(t, r, b, method), method, text(b, "x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections for calls one after the other", n)
	}
}

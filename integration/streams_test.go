package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // callers compress with it
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Each kind of gRPC call carries each message as it is.
func TestGRPCKinds(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	one := string(b.Encode("Shapes", `{"text":"one"}`))
	two := string(b.Encode("Shapes", `{"text":"two"}`))

	got, err := invoke(r.limited(t), r.conn, unaryEcho, []byte(one))
	if err != nil || string(got) != one {
		t.Fatalf("unary: %q, %v", got, err)
	}

	s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/ClientStream")
	for _, m := range []string{one, two} {
		if err := s.send(m); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseSend()
	wantMessages(t, s, two)

	s = rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/ServerStream")
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		return errors.Join(s.Send(msg), s.Send(nil), s.Send([]byte(two)))
	})
	if err := s.send(one); err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	wantMessages(t, s, one, "", two)

	// Both directions at once: the answer to each message comes before the
	// next is sent.
	s = rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	for i := range 100 {
		want := string(b.Encode("Shapes", fmt.Sprintf(`{"small":%d}`, i)))
		if err := s.send(want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.recv(); err != nil || got != want {
			t.Fatalf("message %d: %q, %v", i, got, err)
		}
	}
	_ = s.CloseSend()
	wantMessages(t, s)
}

func wantMessages(t testing.TB, s *bytesStream, want ...string) {
	t.Helper()
	var got []string
	for {
		m, err := s.recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// A backend may end a stream, well or badly, while its caller still sends.
func TestBackendEndsBidi(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for name, want := range map[string]error{"well": nil, "badly": status.Error(codes.OutOfRange, "enough")} {
		t.Run(name, func(t *testing.T) {
			b.Handle("Echo/Bidi", func(s *testbackend.Stream) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				s.SetTrailer(metadata.Pairs("mood", "done"))
				return errors.Join(s.Send([]byte("\x12")), want)
			})
			s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
			if err := s.send(""); err != nil {
				t.Fatal(err)
			}
			if _, err := s.recv(); err != nil {
				t.Fatal(err)
			}
			_, err := s.recv()
			if want == nil && !errors.Is(err, io.EOF) || want != nil && status.Code(err) != codes.OutOfRange {
				t.Errorf("ended with %v", err)
			}
			wantMetadata(t, s.Trailer(), "mood", "done")
		})
	}
}

// Fault 5: bytes that are no UTF-8, no known field, or no protobuf at all pass
// gRPC to gRPC as they are.
func TestFault5BytesPassUntouched(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, payload := range []string{
		"\x0a\x03\xff\xfe\xfd",        // text
		"\xfa\x3f\x02hi",              // field 1023
		"\x10\x01\x10\x02",            // a singular field twice
		"\xff\xff\xff\xff",            // nothing
		strings.Repeat("\x00", 1<<20), // large
	} {
		got, err := invoke(r.limited(t), r.conn, unaryEcho, []byte(payload))
		if err != nil || string(got) != payload {
			t.Errorf("%.10q came back as %.10q, %v", payload, got, err)
		}
		if seen := only(t, b).Requests(); len(seen) != 1 || string(seen[0]) != payload {
			t.Errorf("%.10q reached the backend as something else", payload)
		}
		s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
		if err := s.send(payload); err != nil {
			t.Fatal(err)
		}
		_ = s.CloseSend()
		wantMessages(t, s, payload)
		b.Take()
	}
}

// Fault 5: small messages are delivered one by one as they are sent: the next is
// sent only once the one before it has arrived.
func TestFault5PacedMessages(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	arrived := make(chan struct{})
	message := b.Encode("Shapes", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 509)))
	paced := func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		for range 5 {
			if err := s.Send(message); err != nil {
				return err
			}
			select {
			case <-arrived:
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
		return nil
	}
	b.Handle("Echo/ServerStream", paced)
	t.Run("gRPC", func(t *testing.T) {
		s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/ServerStream")
		if err := s.send(""); err != nil {
			t.Fatal(err)
		}
		_ = s.CloseSend()
		for range 5 {
			if got, err := s.recv(); err != nil || got != string(message) {
				t.Fatalf("%q, %v", got, err)
			}
			arrived <- struct{}{}
		}
		wantMessages(t, s)
	})
	for name, client := range map[string]*http.Client{"HTTP1": r.http1, "h2c": r.http2} {
		t.Run(name, func(t *testing.T) {
			resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/echo:stream", "", "Authorization", r.bearer()))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for range 5 {
				if !lines.Scan() {
					t.Fatalf("the stream ended: %v", lines.Err())
				}
				arrived <- struct{}{}
			}
			if lines.Scan() || lines.Err() != nil {
				t.Fatalf("%q, %v", lines.Text(), lines.Err())
			}
			wantHeader(t, resp.Trailer, "Grpc-Status", "0")
		})
	}
}

// A stream over JSON that fails before its first message has the real HTTP
// status; after it, the error is the last line and in the trailers.
func TestJSONStreamErrors(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	fail := func(messages int) {
		b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
			if err := s.SendHeader(metadata.Pairs("colour", "red")); err != nil {
				return err
			}
			for range messages {
				if err := s.Send(b.Encode("Shapes", `{"small":1}`)); err != nil {
					return err
				}
			}
			s.SetTrailer(metadata.Pairs("mood", "bad"))
			return status.Error(codes.NotFound, "gone, é")
		})
	}
	for name, client := range map[string]*http.Client{"HTTP1": r.http1, "h2c": r.http2} {
		t.Run(name, func(t *testing.T) {
			fail(0)
			a := r.do(t, client, "GET", "/v1/echo:stream", "", "Authorization", r.bearer())
			a.failed(t, 404, codes.NotFound, "")
			wantHeader(t, a.Header, "Grpc-Metadata-Colour", "red")
			wantHeader(t, a.Header, "Grpc-Trailer-Mood", "bad")

			fail(2)
			a = r.do(t, client, "POST", "/v1/echo:stream", `{}`, "Authorization", r.bearer())
			if a.Status != 200 {
				t.Fatalf("%d: %s", a.Status, a.Body)
			}
			lines := strings.Split(strings.TrimSuffix(a.Body, "\n"), "\n")
			if len(lines) != 3 {
				t.Fatalf("lines: %q", lines)
			}
			sameJSON(t, lines[0], `{"small":1}`)
			sameJSON(t, lines[2], `{"error":{"code":5,"message":"gone, é","details":[]}}`)
			wantHeader(t, a.Header, "Grpc-Metadata-Colour", "red")
			wantHeader(t, a.Trailer, "Grpc-Trailer-Mood", "bad")
			wantHeader(t, a.Trailer, "Grpc-Status", "5")
		})
	}
}

// Compression is passed on both ways: a backend sees what the caller chose, and
// a caller gets what it can take.
func TestCompressionPasses(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	big := b.Encode("Shapes", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 5000)))
	for _, compressor := range []string{"", "gzip"} {
		t.Run("caller/"+compressor, func(t *testing.T) {
			var opts []grpc.CallOption
			if compressor != "" {
				opts = append(opts, grpc.UseCompressor(compressor))
			}
			got, err := invoke(r.limited(t), r.conn, unaryEcho, big, opts...)
			if err != nil || string(got) != string(big) {
				t.Fatal(err)
			}
			s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi", opts...)
			if err := s.send(string(big)); err != nil {
				t.Fatal(err)
			}
			_ = s.CloseSend()
			wantMessages(t, s, string(big))
			for _, c := range b.Take() {
				if c.Encoding != compressor {
					t.Errorf("%s reached the backend with encoding %q", c.Method, c.Encoding)
				}
			}
		})
	}
}

// A method whose caller does not stream takes one message: none, or two, is the
// caller's fault and does not reach the backend.
func TestOneRequestMessage(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, method := range []string{"Echo/Unary", "Echo/ServerStream"} {
		for _, messages := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s with %d", method, messages), func(t *testing.T) {
				s := rawStream(t, r.limited(t), r.conn, "/testbackend."+method)
				for range messages {
					_ = s.send("")
				}
				_ = s.CloseSend()
				_, err := s.recv()
				grpcFailed(t, err, codes.Unimplemented, "BAD_MESSAGE")
				untouched(t, b)
			})
		}
	}
}

// A caller that goes away ends the backend's call, whatever the kind; and the
// connection serves the next.
func TestFault7HangUpGRPC(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, method := range []string{"Echo/Unary", "Echo/ServerStream", "Echo/ClientStream", "Echo/Bidi"} {
		t.Run(method, func(t *testing.T) {
			begun, ended := holdCalls(b, method)
			ctx, hangUp := context.WithCancel(r.limited(t))
			done := make(chan error, 1)
			go func() {
				if method == "Echo/Unary" {
					_, err := invoke(ctx, r.conn, "/testbackend."+method, nil)
					done <- err
					return
				}
				s := rawStream(t, ctx, r.conn, "/testbackend."+method)
				_ = s.send("")
				if method == "Echo/ServerStream" { // whose caller sends one message, and says so
					_ = s.CloseSend()
				}
				_, err := s.recv()
				done <- err
			}()
			waitFor(t, begun, "the call at the backend")
			hangUp()
			grpcFailed(t, waitFor(t, done, "the caller's error"), codes.Canceled, "")
			if err := waitFor(t, ended, "the end of the backend's context"); !errors.Is(err, context.Canceled) {
				t.Errorf("the backend's context: %v", err)
			}
			if _, err := invoke(r.limited(t), r.conn, "/testbackend.Admin/GetResource", nil); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// Fault 7: an HTTP caller that hangs up ends the backend's call, also where the
// body was not needed or not wanted.
func TestFault7HangUpHTTP(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ name, backend, method, path, body string }{
		{"GET", "Echo/Unary", "GET", "/v1/echo", ""},
		{"GET with a body", "Echo/Unary", "GET", "/v1/echo", `{"text":"unwanted"}`},
		{"POST", "Echo/Unary", "POST", "/v1/echo", `{"text":"wanted"}`},
		{"DELETE with a large body", "Echo/Unary", "DELETE", "/v1/echo/1", strings.Repeat(" ", 1<<20)},
		{"stream", "Echo/ServerStream", "GET", "/v1/echo:stream", ""},
		{"POST stream", "Echo/ServerStream", "POST", "/v1/echo:stream", `{}`},
	} {
		for name, client := range map[string]*http.Client{"HTTP1": r.http1, "h2c": r.http2} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				begun, ended := holdCalls(b, tc.backend)
				ctx, hangUp := context.WithCancel(limited(t))
				done := make(chan error, 1)
				go func() {
					resp, err := client.Do(r.request(t, ctx, tc.method, tc.path, tc.body, "Authorization", r.bearer()))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					done <- err
				}()
				waitFor(t, begun, "the call at the backend")
				hangUp()
				if err := waitFor(t, done, "the caller's error"); !errors.Is(err, context.Canceled) {
					t.Errorf("the caller: %v", err)
				}
				if err := waitFor(t, ended, "the end of the backend's context"); !errors.Is(err, context.Canceled) {
					t.Errorf("the backend's context: %v", err)
				}
			})
		}
	}
}

// holdCalls makes the backend keep a method's calls for ever, and tell of the end
// of their context. It answers nothing, so that what the caller is told comes
// from the gateway.
func holdCalls(b *testbackend.Server, method string) (begun <-chan struct{}, ended <-chan error) {
	in, out := make(chan struct{}, 1), make(chan error, 1)
	b.Handle(method, func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		in <- struct{}{}
		<-s.Context().Done()
		out <- s.Context().Err()
		<-b.Closing()
		return nil
	})
	return in, out
}

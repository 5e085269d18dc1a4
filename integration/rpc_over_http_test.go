package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// rpcWay is one way in for an RPC on the HTTP port.
type rpcWay struct {
	protocol string // "gRPC", "gRPC-Web", "Connect"
	http2    bool
	json     bool
	gzip     bool // requests; answers always may be
}

func (w rpcWay) String() string {
	text := w.protocol
	for name, on := range map[string]bool{"HTTP2": w.http2} {
		if on {
			text += " " + name
		}
	}
	if w.json {
		text += " JSON"
	}
	if w.gzip {
		text += " gzip"
	}
	return text
}

// rpcWays are all of them.
func rpcWays() []rpcWay {
	var ways []rpcWay
	for _, protocol := range []string{"gRPC", "gRPC-Web", "Connect"} {
		for i := range 8 {
			w := rpcWay{protocol, i&1 != 0, i&2 != 0, i&4 != 0}
			if protocol != "gRPC" || w.http2 {
				ways = append(ways, w)
			}
		}
	}
	return ways
}

type (
	echoMessage = dynamicpb.Message
	echoClient  = connect.Client[echoMessage, echoMessage]
)

// client calls a method of a test backend's, "Echo/Unary", as connect-go does.
func (w rpcWay) client(t testing.TB, r *rig, b *testbackend.Server, method string, more ...connect.ClientOption) *echoClient {
	t.Helper()
	service, name, _ := strings.Cut(method, "/")
	file := b.Message("Shapes").Descriptor().ParentFile()
	descriptor := file.Services().ByName(protoreflect.Name(service)).Methods().ByName(protoreflect.Name(name))
	options := []connect.ClientOption{
		connect.WithSchema(descriptor), connect.WithInterceptors(withCredential(r)),
		connect.WithResponseInitializer(func(_ connect.Spec, m any) error {
			*m.(*dynamicpb.Message) = *dynamicpb.NewMessage(descriptor.Output())
			return nil
		}),
	}
	switch w.protocol {
	case "gRPC":
		options = append(options, connect.WithGRPC())
	case "gRPC-Web":
		options = append(options, connect.WithGRPCWeb())
	}
	if w.json {
		options = append(options, connect.WithProtoJSON())
	}
	if w.gzip {
		options = append(options, connect.WithSendGzip())
	}
	client := r.http1
	if w.http2 {
		client = r.http2
	}
	return connect.NewClient[dynamicpb.Message, dynamicpb.Message](client, "http://"+r.HTTP+"/testbackend."+method, append(options, more...)...)
}

// withCredential has every call carry the rig's.
func withCredential(r *rig) connect.Interceptor { return carrying{r.bearer()} }

type carrying struct{ authorization string }

func (c carrying) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", c.authorization)
		return next(ctx, req)
	}
}

func (c carrying) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", c.authorization)
		return conn
	}
}

func (c carrying) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func text(b *testbackend.Server, s string) *dynamicpb.Message {
	m := b.Message("Shapes")
	m.Set(m.Descriptor().Fields().ByName("text"), protoreflect.ValueOfString(s))
	return m
}

func textOf(m *dynamicpb.Message) string {
	return m.Get(m.Descriptor().Fields().ByName("text")).String()
}

// Each kind of method is called in each way, with large and small messages, and
// what travels beside them arrives.
func TestRPCOverHTTP(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	large := strings.Repeat("large ", 10_000)
	beside := func(s *testbackend.Stream) {
		s.SetHeader(metadata.Pairs("mood", "fine", "mood", "indeed", "head-bin", "\x00\xff", "head-bin", "\x02"))
		s.SetTrailer(metadata.Pairs("tail", "wagging", "tail-bin", "\xfe\x01"))
	}
	for _, method := range []string{"Echo/Unary", "Echo/ClientStream", "Echo/ServerStream", "Echo/Bidi"} {
		b.Handle(method, func(s *testbackend.Stream) error {
			beside(s)
			return echoKind(s, method)
		})
	}
	for _, way := range rpcWays() {
		t.Run(way.String(), func(t *testing.T) {
			ctx := limited(t)
			defer b.Take()
			for _, message := range []string{"small", large, ""} {
				req := connect.NewRequest(text(b, message))
				req.Header().Add("Colour", "red")
				req.Header().Add("Colour", "blue")
				req.Header().Add("Shade-Bin", connect.EncodeBinaryHeader([]byte{0, 1, 255}))
				req.Header().Add("Shade-Bin", connect.EncodeBinaryHeader([]byte{2})+","+connect.EncodeBinaryHeader(nil)) // fault 7
				res, err := way.client(t, r, b, "Echo/Unary").CallUnary(ctx, req)
				if err != nil {
					t.Fatal(err)
				}
				if got := textOf(res.Msg); got != message {
					t.Errorf("unary: %d bytes came back", len(got))
				}
				wantBeside(t, res.Header(), res.Trailer())
			}
			seen := b.Take()
			if md := seen[0].Metadata; !slices.Equal(md["colour"], []string{"red", "blue"}) || !slices.Equal(md["shade-bin"], []string{"\x00\x01\xff", "\x02", ""}) {
				t.Errorf("the backend saw %v", md)
			}

			stream, err := way.client(t, r, b, "Echo/ServerStream").CallServerStream(ctx, connect.NewRequest(text(b, large)))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for stream.Receive() {
				if textOf(stream.Msg()) != large {
					t.Error("server stream: another message")
				}
				n++
			}
			if stream.Err() != nil || n != 3 {
				t.Errorf("server stream: %d messages, %v", n, stream.Err())
			}
			wantBeside(t, stream.ResponseHeader(), stream.ResponseTrailer())
			_ = stream.Close()

			up := way.client(t, r, b, "Echo/ClientStream").CallClientStream(ctx)
			for i := range 3 {
				if err := up.Send(text(b, fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			res, err := up.CloseAndReceive()
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(res.Msg); got != "2" {
				t.Errorf("client stream: %q", got)
			}
			wantBeside(t, res.Header(), res.Trailer())

			if !way.http2 {
				return // connect-go's client does not wait for an answer there while it sends
			}
			both := way.client(t, r, b, "Echo/Bidi").CallBidiStream(ctx)
			for _, message := range []string{"one", large, "three"} {
				if err := both.Send(text(b, message)); err != nil {
					t.Fatal(err)
				}
				got, err := both.Receive()
				if err != nil {
					t.Fatal(err)
				}
				if textOf(got) != message {
					t.Error("bidi: another message")
				}
			}
			if err := both.CloseRequest(); err != nil {
				t.Fatal(err)
			}
			if _, err := both.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("bidi: %v", err)
			}
			wantBeside(t, both.ResponseHeader(), both.ResponseTrailer())
			_ = both.CloseResponse()
		})
	}
}

// echoKind answers as the kind of method does: with the message; with the last
// one; with the one three times; with each as it comes.
func echoKind(s *testbackend.Stream, method string) error {
	var last []byte
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = m
		if method == "Echo/Bidi" {
			if err := s.Send(m); err != nil {
				return err
			}
		}
	}
	switch method {
	case "Echo/Unary", "Echo/ClientStream":
		return s.Send(last)
	case "Echo/ServerStream":
		for range 3 {
			if err := s.Send(last); err != nil {
				return err
			}
		}
	}
	return nil
}

func wantBeside(t *testing.T, header, trailer http.Header) {
	t.Helper()
	for name, want := range map[string][]string{"Mood": {"fine", "indeed"}, "Head-Bin": {"AP8", "Ag"}} {
		if got := header[name]; !slices.Equal(got, want) {
			t.Errorf("header %s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string][]string{"Tail": {"wagging"}, "Tail-Bin": {"/gE"}} {
		if got := trailer[name]; !slices.Equal(got, want) {
			t.Errorf("trailer %s: %q, want %q", name, got, want)
		}
	}
}

// A backend's error arrives as it was sent, details and trailers included,
// whatever was sent before it.
func TestRPCErrorsOverHTTP(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	sent, err := status.New(codes.FailedPrecondition, "no — 100% no\n").WithDetails(
		&errdetails.ErrorInfo{Reason: "BECAUSE", Domain: "test"}, &errdetails.LocalizedMessage{Locale: "de", Message: "nein"})
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for _, method := range []string{"Echo/Unary", "Echo/ClientStream", "Echo/ServerStream", "Echo/Bidi"} {
		b.Handle(method, func(s *testbackend.Stream) error {
			s.SetTrailer(metadata.Pairs("tail", "wagging"))
			if method == "Echo/ServerStream" || method == "Echo/Bidi" {
				for range messages {
					if err := s.Send(b.Encode("Shapes", `{"text":"x"}`)); err != nil {
						return err
					}
				}
			}
			return sent.Err()
		})
	}
	for _, way := range rpcWays() {
		for _, messages = range []int{0, 2} {
			t.Run(fmt.Sprintf("%s after %d", way, messages), func(t *testing.T) {
				ctx := limited(t)
				_, err := way.client(t, r, b, "Echo/Unary").CallUnary(ctx, connect.NewRequest(text(b, "")))
				wantConnectError(t, err, sent)
				stream, err := way.client(t, r, b, "Echo/ServerStream").CallServerStream(ctx, connect.NewRequest(text(b, "")))
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for stream.Receive() {
					n++
				}
				wantConnectError(t, stream.Err(), sent)
				if n != messages {
					t.Errorf("server stream: %d messages", n)
				}
				_ = stream.Close()
				// The backend ends the call while the caller still sends.
				up := way.client(t, r, b, "Echo/ClientStream").CallClientStream(ctx)
				for range 1000 {
					if err := up.Send(text(b, "more")); err != nil {
						break
					}
				}
				_, err = up.CloseAndReceive()
				wantConnectError(t, err, sent)
			})
		}
	}
}

func wantConnectError(t *testing.T, err error, want *status.Status) {
	t.Helper()
	var got *connect.Error
	if !errors.As(err, &got) || got.Code() != connect.Code(want.Code()) || got.Message() != want.Message() {
		t.Errorf("got %v, want %v", err, want)
		return
	}
	if got.Meta().Get("Tail") != "wagging" {
		t.Errorf("metadata: %v", got.Meta())
	}
	details := want.Proto().GetDetails()
	if len(got.Details()) != len(details) {
		t.Errorf("%d details, want %d", len(got.Details()), len(details))
		return
	}
	for i, d := range got.Details() {
		if d.Type() != strings.TrimPrefix(details[i].GetTypeUrl(), "type.googleapis.com/") || !bytes.Equal(d.Bytes(), details[i].GetValue()) {
			t.Errorf("detail %d: %s %x", i, d.Type(), d.Bytes())
		}
	}
}

package integration_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Headers in: what callers may set, and what only the gateway sets.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	r.call(t, "GET", "/v1/echo", "",
		"Grpc-Metadata-Colour", "red", "Grpc-Metadata-Colour", "green",
		"Grpc-Metadata-Raw-Bin", base64.StdEncoding.EncodeToString([]byte{0, 255}),
		"Grpc-Metadata-Bare-Bin", base64.RawStdEncoding.EncodeToString([]byte{0, 255}),
		"Accept-Language", "en", "User-Agent", "tester", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"X-Private", "not for backends", "X-Request-Id", "my-id", "X-Forwarded-For", "6.6.6.6",
		"Grpc-Metadata-Te", "x", "Grpc-Metadata-Grpc-Timeout", "1n", "Grpc-Metadata-X-Request-Id", "evil",
	).ok(t, "")
	md := only(t, b).Metadata
	for key, want := range map[string][]string{
		"colour":                      {"red", "green"},
		"raw-bin":                     {"\x00\xff"},
		"bare-bin":                    {"\x00\xff"},
		"grpcgateway-accept-language": {"en"},
		"grpcgateway-user-agent":      {"tester"},
		"traceparent":                 {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"x-private":                   nil,
		"grpcgateway-x-private":       nil,
		"x-request-id":                {"my-id"},
		"x-forwarded-for":             {"127.0.0.1"},
		"x-forwarded-host":            {r.HTTP},
		"connection":                  nil,
		"te":                          nil,
	} {
		wantMetadata(t, md, key, want...)
	}

	for _, header := range [][]string{
		{"Grpc-Metadata-Bad-Bin", "!!!"},
		{"Grpc-Metadata-Bad!Key", "x"},
		{"Grpc-Metadata-Text", "caf\xe9"},
	} {
		r.call(t, "GET", "/v1/echo", "", header...).failed(t, 400, codes.InvalidArgument, "BAD_METADATA")
		untouched(t, b)
	}

	ctx := metadata.AppendToOutgoingContext(r.limited(t), "colour", "red", "raw-bin", "\x00\xff",
		"x-forwarded-for", "6.6.6.6", "x-request-id", "my-id", "grpcgateway-accept", "evil", "x-custom", "kept")
	if _, err := invoke(ctx, r.conn, unaryEcho, nil); err != nil {
		t.Fatal(err)
	}
	md = only(t, b).Metadata
	wantMetadata(t, md, "colour", "red")
	wantMetadata(t, md, "raw-bin", "\x00\xff")
	wantMetadata(t, md, "x-forwarded-for", "127.0.0.1")
	wantMetadata(t, md, "x-request-id", "my-id")
	wantMetadata(t, md, "x-custom", "kept")
	wantMetadata(t, md, "grpcgateway-accept")
}

// The request id is the caller's where it is usable, or a new one; it comes back,
// with errors too, and is in the log.
func TestRequestID(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	if got := r.call(t, "GET", "/v1/echo", "", "X-Request-Id", "mine").Header.Get("X-Request-Id"); got != "mine" {
		t.Errorf("request id %q", got)
	}
	r.WaitLog(`"request_id":"mine"`, `"code":"OK"`)
	b.Take()
	seen := make(map[string]bool)
	for _, given := range []string{"", strings.Repeat("a", 1000), "tab\there"} {
		got := r.call(t, "GET", "/v1/echo", "", "X-Request-Id", given).Header.Get("X-Request-Id")
		if got == "" || got == given || seen[got] {
			t.Errorf("given %q: request id %q", given, got)
		}
		seen[got] = true
		wantMetadata(t, only(t, b).Metadata, "x-request-id", got)
	}
	if got := r.do(t, r.http1, "GET", "/nowhere", "", "X-Request-Id", "lost").Header.Get("X-Request-Id"); got != "lost" {
		t.Errorf("request id of a 404: %q", got)
	}
	var header, trailer metadata.MD
	ctx := metadata.AppendToOutgoingContext(r.limited(t), "x-request-id", "over-grpc")
	if _, err := invoke(ctx, r.conn, unaryEcho, nil, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	wantMetadata(t, header, "x-request-id", "over-grpc")
	_, err := invoke(metadata.AppendToOutgoingContext(limited(t), "x-request-id", "refused"), r.conn, unaryEcho, nil, grpc.Trailer(&trailer))
	grpcFailed(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
	wantMetadata(t, trailer, "x-request-id", "refused")
}

// X-Forwarded-For is believed of a trusted proxy alone.
func TestForwardedForOfTrustedProxy(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', trusted_proxies: ['127.0.0.0/8', '10.0.0.0/8']}\n")
	r.call(t, "GET", "/v1/echo", "", "X-Forwarded-For", "6.6.6.6, 1.2.3.4, 10.1.1.1", "X-Request-Id", "one").ok(t, "")
	wantMetadata(t, only(t, b).Metadata, "x-forwarded-for", "6.6.6.6, 1.2.3.4, 10.1.1.1, 127.0.0.1")
	r.WaitLog(`"request_id":"one"`, `"client_ip":"1.2.3.4"`)
}

// Headers and trailers out, over JSON: with an answer, with an error, and for
// callers that read trailers and those that do not.
func TestAnswerHeaders(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	answerWith := func(err error) {
		b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
			msg, recvErr := s.Recv()
			if recvErr != nil {
				return recvErr
			}
			s.SetHeader(metadata.Pairs("colour", "red", "raw-bin", "\x00\xff"))
			s.SetTrailer(metadata.Pairs("mood", "good", "mood-bin", "\x01"))
			if err != nil {
				_ = s.SendHeader(nil)
				return err
			}
			return s.Send(msg)
		})
	}
	for _, tc := range []struct {
		name   string
		err    error
		status int
	}{{"answer", nil, 200}, {"error", status.Error(codes.FailedPrecondition, "no"), 400}} {
		t.Run(tc.name, func(t *testing.T) {
			answerWith(tc.err)
			for _, client := range []*http.Client{r.http1, r.http2} {
				a := r.do(t, client, "GET", "/v1/echo", "", "Authorization", r.bearer())
				if a.Status != tc.status {
					t.Fatalf("%d: %s", a.Status, a.Body)
				}
				wantHeader(t, a.Header, "Grpc-Metadata-Colour", "red")
				wantHeader(t, a.Header, "Grpc-Metadata-Raw-Bin", "AP8=")
				wantHeader(t, a.Header, "Grpc-Trailer-Mood", "good")
				wantHeader(t, a.Header, "Grpc-Trailer-Mood-Bin", "AQ==")

				a = r.do(t, client, "GET", "/v1/echo", "", "Authorization", r.bearer(), "TE", "trailers")
				wantHeader(t, a.Trailer, "Grpc-Trailer-Mood", "good")
				wantHeader(t, a.Trailer, "Grpc-Trailer-Mood-Bin", "AQ==")
			}
		})
	}
}

func wantHeader(t testing.TB, h http.Header, name, want string) {
	t.Helper()
	if got := h.Get(name); got != want {
		t.Errorf("%s: %q, want %q in %v", name, got, want, h)
	}
}

// Fault 6: headers and trailers arrive with an error, and without a message, for
// unary calls and streams.
func TestFault6HeadersWithErrors(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, method := range []string{"Echo/Unary", "Echo/ServerStream", "Echo/ClientStream", "Echo/Bidi"} {
		t.Run(method, func(t *testing.T) {
			b.Handle(method, func(s *testbackend.Stream) error {
				if err := s.SendHeader(metadata.Pairs("colour", "red", "raw-bin", "\x00\xff")); err != nil {
					return err
				}
				s.SetTrailer(metadata.Pairs("mood", "bad", "raw-bin", "\x01"))
				return status.Error(codes.Aborted, "stopped")
			})
			header, trailer, err := openAndEnd(t, r, method)
			grpcFailed(t, err, codes.Aborted, "")
			wantMetadata(t, header, "colour", "red")
			wantMetadata(t, header, "raw-bin", "\x00\xff")
			wantMetadata(t, trailer, "mood", "bad")
			wantMetadata(t, trailer, "raw-bin", "\x01")
		})
	}
	t.Run("stream without a message", func(t *testing.T) {
		b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
			s.SetHeader(metadata.Pairs("colour", "red"))
			s.SetTrailer(metadata.Pairs("mood", "good"))
			return nil
		})
		header, trailer, err := openAndEnd(t, r, "Echo/ServerStream")
		if err != nil {
			t.Fatal(err)
		}
		wantMetadata(t, metadata.Join(header, trailer), "colour", "red")
		wantMetadata(t, trailer, "mood", "good")

		a := r.do(t, r.http2, "GET", "/v1/echo:stream", "", "Authorization", r.bearer())
		if a.Status != 200 || a.Body != "" {
			t.Fatalf("%d %q", a.Status, a.Body)
		}
		wantHeader(t, a.Trailer, "Grpc-Trailer-Mood", "good")
		wantHeader(t, a.Trailer, "Grpc-Status", "0")
	})
}

// openAndEnd makes a call with one empty message and returns what came back.
func openAndEnd(t testing.TB, r *rig, method string) (header, trailer metadata.MD, err error) {
	t.Helper()
	if method == "Echo/Unary" {
		_, err = invoke(r.limited(t), r.conn, "/testbackend."+method, nil, grpc.Header(&header), grpc.Trailer(&trailer))
		return header, trailer, err
	}
	s := rawStream(t, r.limited(t), r.conn, "/testbackend."+method)
	_ = s.send("")
	_ = s.CloseSend()
	header, _ = s.Header()
	for err == nil {
		_, err = s.recv()
	}
	if strings.Contains(err.Error(), "EOF") {
		err = nil
	}
	return header, s.Trailer(), err
}

// A status with details passes untouched over gRPC, and as JSON with the types
// that are known; one whose details nobody knows keeps its bytes.
func TestStatusDetails(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	s, err := status.New(codes.ResourceExhausted, "trop, é\n%").WithDetails(
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "acme", Description: "d"}}},
		&errdetails.ErrorInfo{Reason: "MINE", Domain: "shop"},
	)
	if err != nil {
		t.Fatal(err)
	}
	b.Handle("Echo/Unary", func(*testbackend.Stream) error { return s.Err() })
	_, err = invoke(r.limited(t), r.conn, unaryEcho, nil)
	got := status.Convert(err)
	if got.Code() != s.Code() || got.Message() != s.Message() || len(got.Details()) != 2 {
		t.Fatalf("got %v", got.Proto())
	}
	a := r.call(t, "GET", "/v1/echo", "")
	a.failed(t, 429, codes.ResourceExhausted, "")
	sameJSON(t, a.Body, `{"code":8,"message":"trop, é\n%","details":[
		{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"subject":"acme","description":"d"}]},
		{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MINE","domain":"shop"}]}`)

	for code, want := range map[codes.Code]int{
		codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
		codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.Unauthenticated: 401,
		codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
		codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500,
	} {
		b.Handle("Admin/GetResource", func(*testbackend.Stream) error { return status.Error(code, "said") })
		if a := r.call(t, "GET", "/admin/x", ""); a.Status != want || !strings.Contains(a.Body, `"said"`) {
			t.Errorf("%v: %d %s, want %d", code, a.Status, a.Body, want)
		}
	}
}

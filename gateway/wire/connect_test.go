package wire_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func TestConnectCodes(t *testing.T) {
	t.Parallel()
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if got, want := wire.ConnectCode(c), connect.Code(c).String(); got != want {
			t.Errorf("%v: %q, want %q", c, got, want)
		}
	}
	for _, c := range []codes.Code{codes.OK, 17, 4000} {
		if wire.ConnectCode(c) != "unknown" || wire.ConnectHTTPStatus(c) != 500 {
			t.Errorf("%d: %q", c, wire.ConnectCode(c))
		}
	}
	// As connectrpc.com/docs/protocol#error-codes has them.
	for c, want := range map[codes.Code]int{
		codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404,
		codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400,
		codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501, codes.Internal: 500, codes.Unavailable: 503,
		codes.DataLoss: 500, codes.Unauthenticated: 401,
	} {
		if got := wire.ConnectHTTPStatus(c); got != want {
			t.Errorf("%v: %d, want %d", c, got, want)
		}
	}
}

func TestConnectError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		message string
		details []wire.ErrorDetail
		want    string
	}{
		{"", nil, `{"code":"not_found"}`},
		{"say \"no\"\n\\ \xff\u00e4\x00\x7f", nil, `{"code":"not_found","message":"say \"no\"\u000a\\ ` + "\ufffd\u00e4" + `\u0000\u007f"}`},
		{"x", []wire.ErrorDetail{{Type: "a.B", Value: []byte{0xff}}, {Type: "c.D", Debug: []byte(`{"e":1}`)}},
			`{"code":"not_found","message":"x","details":[{"type":"a.B","value":"/w"},{"type":"c.D","value":"","debug":{"e":1}}]}`},
	} {
		if got := string(wire.AppendConnectError(nil, codes.NotFound, tc.message, tc.details)); got != tc.want || !json.Valid([]byte(got)) {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestEndStream(t *testing.T) {
	t.Parallel()
	metadata := wire.AppendMetadataEntry(nil, "a", []string{"1", "2"})
	metadata = wire.AppendMetadataEntry(metadata, "b-bin", []string{`AA"`})
	failure := []byte(`{"code":"aborted"}`)
	for _, tc := range []struct {
		failure, metadata []byte
		want              string
	}{
		{nil, nil, `{}`},
		{failure, nil, `{"error":{"code":"aborted"}}`},
		{nil, metadata, `{"metadata":{"a":["1","2"],"b-bin":["AA\""]}}`},
		{failure, metadata, `{"error":{"code":"aborted"},"metadata":{"a":["1","2"],"b-bin":["AA\""]}}`},
	} {
		if got := string(wire.AppendEndStream(nil, tc.failure, tc.metadata)); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// FuzzConnectError: any text makes JSON that says the same.
func FuzzConnectError(f *testing.F) {
	f.Add("text", "a.B", []byte{1, 2})
	f.Add("\xff\"\\\u2028\x00", "\x1f", []byte{})
	f.Fuzz(func(t *testing.T, message, kind string, value []byte) {
		var got struct {
			Message string
			Details []struct{ Type, Value string }
		}
		text := wire.AppendConnectError(nil, codes.Internal, message, []wire.ErrorDetail{{Type: kind, Value: value}})
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		valid := func(s string) string { return string([]rune(s)) } // each byte that is no UTF-8 by U+FFFD
		if got.Message != valid(message) || got.Details[0].Type != valid(kind) ||
			got.Details[0].Value != base64.RawStdEncoding.EncodeToString(value) {
			t.Fatalf("%q", text)
		}
	})
}

func TestConnectGet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		query   string
		want    wire.ConnectGet
		message string // decoded; "!" if it is not base64url
	}{
		{"", wire.ConnectGet{}, ""},
		{"connect=v1&encoding=json&message=%7B%22a%22%3A1%7D", wire.ConnectGet{Version: "v1", Encoding: "json", HasEncoding: true, Message: `{"a":1}`, HasMessage: true}, `{"a":1}`},
		{"encoding=proto&base64=1&message=_-8", wire.ConnectGet{Encoding: "proto", HasEncoding: true, Base64: true, Message: "_-8", HasMessage: true}, "\xff\xef"},
		{"base64=1&message=_-8%3D", wire.ConnectGet{Base64: true, Message: "_-8=", HasMessage: true}, "\xff\xef"},
		{"base64=1&message=", wire.ConnectGet{Base64: true, HasMessage: true}, ""},
		{"base64=1&message=/w", wire.ConnectGet{Base64: true, Message: "/w", HasMessage: true}, "!"},
		{"base64=1&message=%0AAAAA", wire.ConnectGet{Base64: true, Message: "\nAAAA", HasMessage: true}, "!"},
		{"message=a&message=b&compression=gzip&base64=0", wire.ConnectGet{Message: "a", HasMessage: true, Compression: "gzip"}, "a"},
		{"other=%zz&message=x+y", wire.ConnectGet{Message: "x y", HasMessage: true}, "x y"},
	} {
		got, ok := wire.ParseConnectGet(tc.query)
		if !ok || got != tc.want {
			t.Errorf("%q: %+v, %v", tc.query, got, ok)
		}
		message, ok := got.AppendMessage([]byte("dst"))
		if ok == (tc.message == "!") || ok && string(message) != "dst"+tc.message {
			t.Errorf("%q: %q, %v", tc.query, message, ok)
		}
	}
	if _, ok := wire.ParseConnectGet("message=%z"); ok {
		t.Error("a malformed escape is accepted")
	}
}

// FuzzConnectGet: parameters are what net/url makes of them.
func FuzzConnectGet(f *testing.F) {
	f.Add("connect=v1&encoding=proto&base64=1&message=_-8&compression=gzip")
	f.Add("message=%7b&message=&&=x;y&encoding=a+b")
	f.Fuzz(func(t *testing.T, query string) {
		got, ok := wire.ParseConnectGet(query)
		if !ok || strings.Contains(query, ";") { // which net/url refuses
			return
		}
		for _, pair := range strings.Split(query, "&") { // names are not unescaped here
			if name, _, _ := strings.Cut(pair, "="); strings.ContainsAny(name, "%+") {
				return
			}
		}
		want, _ := url.ParseQuery(query) // leaves out pairs that are malformed
		if got.Version != want.Get("connect") || got.Encoding != want.Get("encoding") || got.Compression != want.Get("compression") ||
			got.Message != want.Get("message") || got.HasMessage != want.Has("message") || got.Base64 != (want.Get("base64") == "1") {
			t.Fatalf("%q: %+v, want %v", query, got, want)
		}
		_, _ = got.AppendMessage(nil)
	})
}

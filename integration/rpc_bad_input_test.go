package integration_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// rpcOutcome is how an RPC over HTTP ended.
type rpcOutcome struct {
	code   string // as Connect names it
	reason string // the gateway's; empty for the backend's and for OK
}

// rpcOutcomeOf reads it from an answer, in whichever protocol.
func rpcOutcomeOf(t *testing.T, a answer) rpcOutcome {
	t.Helper()
	kind := a.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/grpc-web-text"):
		var plain []byte
		for rest := a.Body; rest != ""; rest = rest[4:] {
			group, err := base64.StdEncoding.DecodeString(rest[:4])
			if err != nil {
				t.Fatalf("%q: %v", a.Body, err)
			}
			plain = append(plain, group...)
		}
		return webOutcome(t, a.Header, string(plain))
	case strings.HasPrefix(kind, "application/grpc-web"):
		return webOutcome(t, a.Header, a.Body)
	case strings.HasPrefix(kind, "application/grpc"):
		if a.Trailer.Get("Grpc-Status") != "" {
			return grpcOutcome(t, a.Trailer)
		}
		return grpcOutcome(t, a.Header)
	case strings.HasPrefix(kind, "application/connect+"):
		var end struct{ Error *connectWireError }
		if err := json.Unmarshal([]byte(lastEnvelope(t, a.Body, 2)), &end); err != nil {
			t.Fatal(err)
		}
		return end.Error.outcome(t)
	case a.Status == http.StatusOK:
		return rpcOutcome{}
	}
	failure := new(connectWireError)
	if err := json.Unmarshal([]byte(a.Body), failure); err != nil {
		t.Fatalf("%d %q: %v", a.Status, a.Body, err)
	}
	return failure.outcome(t)
}

type connectWireError struct {
	Code    string
	Details []struct{ Type, Value string }
}

func (e *connectWireError) outcome(t *testing.T) rpcOutcome {
	t.Helper()
	if e == nil {
		return rpcOutcome{}
	}
	s := new(spb.Status)
	for _, d := range e.Details {
		value, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: value})
	}
	s.Code = int32(codes.Unknown) // a status without a code has no details
	return rpcOutcome{e.Code, reasonOf(status.FromProto(s))}
}

func grpcOutcome(t *testing.T, h http.Header) rpcOutcome {
	t.Helper()
	code, err := strconv.Atoi(h.Get("Grpc-Status"))
	if err != nil {
		t.Fatalf("no status: %v", h)
	}
	if code == 0 {
		return rpcOutcome{}
	}
	details, err := base64.RawStdEncoding.DecodeString(h.Get("Grpc-Status-Details-Bin"))
	s := new(spb.Status)
	if err != nil || proto.Unmarshal(details, s) != nil {
		t.Fatalf("bad details: %v", h)
	}
	return rpcOutcome{connectName(codes.Code(code)), reasonOf(status.FromProto(s))}
}

func webOutcome(t *testing.T, header http.Header, body string) rpcOutcome {
	t.Helper()
	if header.Get("Grpc-Status") != "" {
		return grpcOutcome(t, header)
	}
	block := lastEnvelope(t, body, 0x80)
	trailer, err := textproto.NewReader(bufio.NewReader(strings.NewReader(block + "\r\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q: %v", block, err)
	}
	return grpcOutcome(t, http.Header(trailer))
}

// lastEnvelope gives the last of a body's envelopes, which has the flags.
func lastEnvelope(t *testing.T, body string, flags byte) string {
	t.Helper()
	for body != "" {
		size := int(body[1])<<24 | int(body[2])<<16 | int(body[3])<<8 | int(body[4])
		if len(body) == 5+size {
			if body[0] != flags {
				break
			}
			return body[5:]
		}
		body = body[5+size:]
	}
	t.Fatal("the body has no end")
	return ""
}

func enveloped(flags byte, data string) string {
	n := len(data)
	return string([]byte{flags, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + data
}

func connectName(c codes.Code) string { return connect.Code(c).String() }

func gzipOf(t testing.TB, data string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is wrong with a request is told in its own protocol, reaches no backend,
// and leaves the connection as good as it was.
func TestRPCBadInput(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, "http: {address: \"127.0.0.1:0\", max_body_size: 64KiB, body_timeout: 1s}\n"+echoConfig(b, ""))
	zip := gzipOf(t, "")
	bomb := gzipOf(t, strings.Repeat("x", 1<<20))
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zstdBomb := string(encoder.EncodeAll(bytes.Repeat([]byte("x"), 1<<20), nil))
	internal := rpcOutcome{"internal", "BAD_MESSAGE"}
	tooLarge := rpcOutcome{"resource_exhausted", "MESSAGE_TOO_LARGE"}
	type kind struct {
		contentType, encoding, timeout string
		client                         *http.Client
	}
	kinds := []kind{
		{"application/grpc", "Grpc-Encoding", "Grpc-Timeout", r.http2},
		{"application/grpc-web", "Grpc-Encoding", "Grpc-Timeout", r.http1},
		{"application/grpc-web+proto", "Grpc-Encoding", "Grpc-Timeout", r.http2},
		{"application/grpc-web-text", "Grpc-Encoding", "Grpc-Timeout", r.http1},
		{"application/connect+proto", "Connect-Content-Encoding", "Connect-Timeout-Ms", r.http1},
		{"application/connect+json", "Connect-Content-Encoding", "Connect-Timeout-Ms", r.http2},
	}
	for _, k := range kinds {
		for name, tc := range map[string]struct {
			body   string
			header []string
			want   rpcOutcome
		}{
			"a part of a header":      {"\x00\x00", nil, internal},
			"a part of a message":     {enveloped(0, "12345")[:8], nil, internal},
			"a length without end":    {"\x00\xff\xff\xff\xff", nil, tooLarge},
			"too large":               {enveloped(0, strings.Repeat("x", 64<<10+1)), nil, tooLarge},
			"reserved flags":          {enveloped(4, ""), nil, internal},
			"no envelope at all":      {`{"text":"x"}`, nil, internal}, // its length would be too large, too
			"trailers":                {enveloped(0x80, ""), nil, internal},
			"end of stream":           {enveloped(2, "{}"), nil, internal},
			"compressed without name": {enveloped(1, zip), nil, internal},
			"not compressed":          {enveloped(1, "nothing like it"), []string{k.encoding, "gzip"}, internal},
			"compression cut off":     {enveloped(1, zip[:12]), []string{k.encoding, "gzip"}, internal},
			"bomb":                    {enveloped(1, bomb), []string{k.encoding, "gzip"}, tooLarge},
			"zstd bomb":               {enveloped(1, zstdBomb), []string{k.encoding, "zstd"}, tooLarge},
			"unknown compression":     {enveloped(1, "x"), []string{k.encoding, "br"}, rpcOutcome{"unimplemented", "CONTENT_ENCODING_UNSUPPORTED"}},
			"bad timeout":             {enveloped(0, ""), []string{k.timeout, "soon"}, rpcOutcome{"invalid_argument", "BAD_TIMEOUT"}},
			"bad binary metadata":     {enveloped(0, ""), []string{"X-Bin", "?"}, rpcOutcome{"invalid_argument", "BAD_METADATA"}},
		} {
			t.Run(k.contentType+" "+name, func(t *testing.T) {
				body := tc.body
				if k.contentType == "application/grpc-web-text" {
					body = base64.StdEncoding.EncodeToString([]byte(body))
				}
				header := append([]string{"Content-Type", k.contentType, "Authorization", r.bearer(), "Te", "trailers"}, tc.header...)
				for _, method := range []string{"Bidi", "ServerStream"} {
					a := r.do(t, k.client, http.MethodPost, "/testbackend.Echo/"+method, body, header...)
					if got := rpcOutcomeOf(t, a); got != tc.want || a.Status != http.StatusOK {
						t.Errorf("%s: %d %+v, want %+v", method, a.Status, got, tc.want)
					}
				}
				good := enveloped(0, "")
				if k.contentType == "application/grpc-web-text" {
					good = base64.StdEncoding.EncodeToString([]byte(good))
				}
				a := r.do(t, k.client, http.MethodPost, "/testbackend.Echo/ServerStream", good, header[:6]...)
				if got := rpcOutcomeOf(t, a); got != (rpcOutcome{}) {
					t.Errorf("a good call after it: %+v", got)
				}
			})
		}
	}
	for _, call := range b.Take() {
		if len(call.Requests()) > 1 || call.Method == "/testbackend.Echo/Bidi" && len(call.Requests()) > 0 {
			t.Errorf("%s reached the backend with %d messages", call.Method, len(call.Requests()))
		}
	}
}

// The same for Connect's unary calls, whose errors have HTTP statuses.
func TestConnectBadInput(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, "http: {address: \"127.0.0.1:0\", max_body_size: 64KiB}\n"+echoConfig(b, ""))
	const unary = "/testbackend.Echo/Unary"
	bad := func(code, reason string) rpcOutcome { return rpcOutcome{code, reason} }
	for name, tc := range map[string]struct {
		body   string
		header []string
		status int
		want   rpcOutcome
	}{
		"bad JSON":            {`{"text":`, []string{"Content-Type", "application/json"}, 400, bad("invalid_argument", "BAD_REQUEST")},
		"another field's":     {`{"small":"x"}`, []string{"Content-Type", "application/json; charset=UTF-8"}, 400, bad("invalid_argument", "BAD_REQUEST")},
		"another version":     {"", []string{"Content-Type", "application/proto", "Connect-Protocol-Version", "2"}, 400, bad("invalid_argument", "BAD_PROTOCOL_VERSION")},
		"bad timeout":         {"", []string{"Content-Type", "application/proto", "Connect-Timeout-Ms", "12345678901"}, 400, bad("invalid_argument", "BAD_TIMEOUT")},
		"not compressed":      {"x", []string{"Content-Type", "application/proto", "Content-Encoding", "gzip"}, 400, bad("invalid_argument", "BAD_MESSAGE")},
		"unknown compression": {"x", []string{"Content-Type", "application/proto", "Content-Encoding", "br"}, 501, bad("unimplemented", "CONTENT_ENCODING_UNSUPPORTED")},
		"bomb":                {gzipOf(t, strings.Repeat("x", 1<<20)), []string{"Content-Type", "application/proto", "Content-Encoding", "gzip"}, 429, bad("resource_exhausted", "MESSAGE_TOO_LARGE")},
		"too large":           {strings.Repeat("x", 64<<10+1), []string{"Content-Type", "application/proto"}, 429, bad("resource_exhausted", "BODY_TOO_LARGE")},
		"no time":             {"", []string{"Content-Type", "application/proto", "Connect-Timeout-Ms", "0"}, 504, bad("deadline_exceeded", "DEADLINE_EXCEEDED")},
	} {
		t.Run(name, func(t *testing.T) {
			header := append([]string{"Connect-Protocol-Version", "1", "Authorization", r.bearer()}, tc.header...)
			if strings.HasPrefix(name, "another version") {
				header = header[2:]
			}
			a := r.do(t, r.http1, http.MethodPost, unary, tc.body, header...)
			if got := rpcOutcomeOf(t, a); got != tc.want || a.Status != tc.status || a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %+v, want %d %+v: %s", a.Status, got, tc.status, tc.want, a.Body)
			}
		})
	}
	for name, tc := range map[string]struct {
		method, path, contentType string
		status                    int
		header, want              string
	}{
		"unknown codec":      {http.MethodPost, unary, "application/connect+thrift", 415, "Accept-Post", "application/proto"},
		"stream of a unary":  {http.MethodPost, unary, "application/connect+proto", 415, "Accept-Post", "application/json"},
		"unary of a stream":  {http.MethodPost, "/testbackend.Echo/Bidi", "application/proto", 415, "Accept-Post", "application/connect+json"},
		"another charset":    {http.MethodPost, unary, "application/proto; charset=latin1", 415, "Accept-Post", "application/grpc-web"},
		"unknown gRPC codec": {http.MethodPost, unary, "application/grpc+thrift", 415, "Accept-Post", "application/grpc"},
		"PUT":                {http.MethodPut, unary, "application/proto", 405, "Allow", "POST"},
		"DELETE of gRPC-Web": {http.MethodDelete, unary, "application/grpc-web", 405, "Allow", "POST"},
		"gRPC over HTTP/1.1": {http.MethodPost, unary, "application/grpc", 505, "Connection", "close"},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.do(t, r.http1, tc.method, tc.path, "x", "Content-Type", tc.contentType, "Authorization", r.bearer())
			if a.Status != tc.status || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d %q %q", a.Status, a.Header.Get("Content-Type"), a.Body)
			}
			// It says what is in the header, for those who do not look there.
			if tc.header == "Accept-Post" && !strings.Contains(a.Body, tc.want) {
				t.Errorf("the body does not tell of %s: %q", tc.want, a.Body)
			}
			if got := a.Header.Get(tc.header); tc.header != "Connection" && !strings.Contains(got, tc.want) {
				t.Errorf("%s: %q", tc.header, got)
			}
		})
	}
	a := r.do(t, r.http1, http.MethodPost, "/testbackend.Echo/None", "", "Content-Type", "application/proto")
	if got := rpcOutcomeOf(t, a); got != bad("unimplemented", "NO_ROUTE") || a.Status != http.StatusNotFound {
		t.Errorf("no such method: %d %+v", a.Status, got)
	}
	a = r.do(t, r.http1, http.MethodPost, unary, "", "Content-Type", "application/proto")
	if got := rpcOutcomeOf(t, a); got != bad("unauthenticated", "CREDENTIAL_MISSING") || a.Status != http.StatusUnauthorized {
		t.Errorf("no credential: %d %+v", a.Status, got)
	}
	untouched(t, b)
}

// gRPC-Web in text, as browsers send it: one chunk of base64 for each message,
// or for all; the answer is text, too.
func TestGRPCWebText(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	message := string(b.Encode("Shapes", `{"text":"hello"}`))
	one := base64.StdEncoding.EncodeToString([]byte(enveloped(0, message)))
	for _, client := range []*http.Client{r.http1, r.http2} {
		for _, body := range []string{one, one[:4] + one[4:]} {
			a := r.do(t, client, http.MethodPost, unaryEcho, body, "Content-Type", "application/grpc-web-text", "Authorization", r.bearer(), "X-Grpc-Web", "1")
			if got := rpcOutcomeOf(t, a); got != (rpcOutcome{}) || a.Header.Get("Content-Type") != "application/grpc-web-text" {
				t.Errorf("%+v, %v", got, a.Header)
			}
			if !strings.HasPrefix(a.Body, one) {
				t.Errorf("%q does not begin with %q", a.Body, one)
			}
		}
		// A stream of two in two chunks.
		a := r.do(t, client, http.MethodPost, "/testbackend.Echo/Bidi", one+one, "Content-Type", "application/grpc-web-text+proto", "Authorization", r.bearer())
		if got := rpcOutcomeOf(t, a); got != (rpcOutcome{}) || !strings.HasPrefix(a.Body, one+one) {
			t.Errorf("%+v, %q", got, a.Body)
		}
	}
}

// What http.protocols leaves out is refused in its own words, and the rest goes on.
func TestProtocolsSwitchedOff(t *testing.T) {
	t.Parallel()
	for off, contentType := range map[string]string{"grpc": "application/grpc", "grpc_web": "application/grpc-web", "connect": "application/proto"} {
		var rest []string
		for _, p := range []string{"json", "grpc", "grpc_web", "connect"} {
			if p != off {
				rest = append(rest, p)
			}
		}
		b := testbackend.Start(t)
		r := newRig(t, fmt.Sprintf("http: {address: \"127.0.0.1:0\", protocols: [%s]}\n", strings.Join(rest, ", "))+echoConfig(b, ""))
		a := r.do(t, r.http2, http.MethodPost, unaryEcho, "", "Content-Type", contentType, "Authorization", r.bearer())
		if got := rpcOutcomeOf(t, a); got != (rpcOutcome{"unimplemented", "WRONG_PORT"}) {
			t.Errorf("%s: %+v", off, got)
		}
		untouched(t, b)
		r.call(t, http.MethodPost, "/v1/echo", `{}`).ok(t, "")
	}
}

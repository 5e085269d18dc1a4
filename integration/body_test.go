package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Fault 3: a body is one JSON value and nothing else; no body is the empty
// message.
func TestFault3Body(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ name, body, want string }{
		{"none", "", `{}`},
		{"empty object", "{}", `{}`},
		{"space around", " \t\r\n{\"text\":\"b\"}\n ", `{"text":"b"}`},
		{"null field", `{"text":null,"sub":null,"texts":null}`, `{}`},
		{"nested", `{"sub":{"inner":{"name":"a","colour":"RED"}},"subs":[{},{"size":"9007199254740993"}]}`, `{"sub":{"inner":{"name":"a","colour":"RED"}},"subs":[{},{"size":"9007199254740993"}]}`},
		{"number exact", `{"number":9007199254740993}`, `{"number":"9007199254740993"}`},
		{"maps", `{"labels":{"a":"b"},"subByName":{"x":{"name":"y"}}}`, `{"labels":{"a":"b"},"subByName":{"x":{"name":"y"}}}`},
		{"well-known", `{"time":"2024-02-29T12:00:00Z","duration":"1.5s","mask":"text,subByName","wrappedText":"","wrappedNumber":"3"}`, `{"time":"2024-02-29T12:00:00Z","duration":"1.500s","mask":"text,subByName","wrappedText":"","wrappedNumber":"3"}`},
		{"oneof", `{"right":"0"}`, `{"right":"0"}`},
		{"proto names", `{"sub_by_name":{},"wrapped_flag":true}`, `{"wrappedFlag":true}`},
		{"unknown field", `{"nothing":{"a":[1]},"text":"b"}`, `{"text":"b"}`},
		{"escapes", `{"text":"\u00e9\ud83d\ude00\n"}`, `{"text":"é😀\n"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.call(t, "POST", "/v1/echo", tc.body).ok(t, "")
			sawRequest(t, b, "Shapes", tc.want)
		})
	}
	for _, body := range []string{
		`{"text":"b"}x`, `{"text":"b"}{"text":"c"}`, `{"text":"b"},`, `{"text":"b"`, `{"text":"b}`, `{text:"b"}`,
		`{"text":1}`, `{"number":"x"}`, `{"number":1.5}`, `{"text":"a","text":"b"}`, `{"left":"a","right":1}`,
		`[]`, `"text"`, `null x`, `1`, `{"subs":{}}`, `{"sub":[]}`, `{"text":"\ud800"}`,
		"{\"text\":\"\xff\"}", strings.Repeat(`{"sub":{"inner":`, 1) + strings.Repeat(`{"inner":`, 20000),
		strings.Repeat("[", 100000), "\x00", "\xef\xbb\xbf{}",
	} {
		name := body
		if len(name) > 30 {
			name = name[:30]
		}
		t.Run(name, func(t *testing.T) {
			r.call(t, "POST", "/v1/echo", body).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
			untouched(t, b)
		})
	}
	// The answer names the field.
	if a := r.call(t, "POST", "/v1/echo", `{"sub":{"size":"x"}}`); !strings.Contains(a.Body, "sub.size") {
		t.Errorf("the answer does not name sub.size: %s", a.Body)
	}
	a := r.call(t, "POST", "/v1/echo", `{}`, "Content-Encoding", "br")
	a.failed(t, 415, codes.InvalidArgument, "CONTENT_ENCODING_UNSUPPORTED")
	wantHeader(t, a.Header, "Accept-Encoding", "gzip, zstd")
}

// Each shape of a field is answered as protojson writes it, in each of a
// backend's ways to write JSON.
func TestJSONOptions(t *testing.T) {
	t.Parallel()
	const request = `{"number":"9007199254740993","data":"+/8=","colour":"RED","sub":{"name":"a"},"wrappedText":"w","time":"2024-02-29T12:00:00Z"}`
	for _, tc := range []struct{ name, options, want string }{
		{"small", "emit_defaults: false", request},
		{"proto names", "emit_defaults: false, use_proto_names: true", strings.NewReplacer("wrappedText", "wrapped_text").Replace(request)},
		{"enum numbers", "emit_defaults: false, enums_as_numbers: true", strings.NewReplacer(`"RED"`, "1").Replace(request)},
		{"defaults", "emit_defaults: true", `{"text":"","small":0,"number":"9007199254740993","positive":"0","flag":false,"real":0,"data":"+/8=","colour":"RED",
			"sub":{"name":"a","size":"0","inner":null,"colour":"COLOUR_UNSPECIFIED"},"texts":[],"numbers":[],"colours":[],"subs":[],"labels":{},"subByName":{},
			"wrappedText":"w","wrappedNumber":null,"wrappedFlag":null,"time":"2024-02-29T12:00:00Z","duration":null,"mask":null,"wrappedData":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newEchoRig(t, "json: {"+tc.options+"}", "")
			r.call(t, "POST", "/v1/echo", request).ok(t, tc.want)
		})
	}
	t.Run("strict", func(t *testing.T) {
		t.Parallel()
		r, b := newEchoRig(t, "json: {discard_unknown: false}", "")
		for _, body := range []string{`{"nothing":1}`, `{"colour":"BLUE"}`, `{"sub":{"nothing":{}}}`} {
			r.call(t, "POST", "/v1/echo", body).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
		}
		untouched(t, b)
	})
}

// Each backend's JSON is its own, also beside others; 64-bit integers are strings
// but where it is asked for numbers.
func TestJSONOptionsPerBackend(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, fmt.Sprintf(`backends:
  - name: echo
    endpoints: [%[1]q]
    reflection: true
    services: [testbackend.Echo]
    json: {emit_defaults: false, int64_as_numbers: true, enums_as_numbers: true}
  - name: admin
    endpoints: [%[1]q]
    reflection: true
    services: [testbackend.Admin]
    json: {use_proto_names: true}
  - name: files
    endpoints: [%[1]q]
    reflection: true
    services: [testbackend.Files]
`, b.Addr))
	r.call(t, "POST", "/v1/echo", `{"number":"9007199254740993","colour":"RED"}`).ok(t, `{"number":9007199254740993,"colour":1}`)
	r.call(t, "GET", "/admin/r", "").ok(t, `{"resource_id":"r","view":""}`)
	r.call(t, "PUT", "/v1/files/f", "").ok(t, `{"name":"f","content":null,"note":""}`)
}

// An answer that does not fit the descriptor is the backend's fault, told
// without its bytes.
func TestAnswerThatDoesNotFit(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for name, wire := range map[string]string{
		"cut off":      "\x0a\x05ab",
		"no UTF-8":     "\x0a\x02\xff\xfe",
		"no wire type": "\x0f",
	} {
		t.Run(name, func(t *testing.T) {
			b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				return s.Send([]byte(wire))
			})
			r.call(t, "GET", "/v1/echo", "").failed(t, 500, codes.Internal, "BAD_RESPONSE")
		})
	}
}

package integration_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const (
	asProblem  = "http: {address: '127.0.0.1:0', errors: problem}\n"
	asEnvelope = "http: {address: '127.0.0.1:0', errors: envelope}\n"
)

// notFoundWithDetails has a detail that the backend's descriptors know and one
// that nobody does.
func notFoundWithDetails(b *testbackend.Server) error {
	return status.FromProto(&spb.Status{Code: int32(codes.NotFound), Message: "gone, é", Details: []*anypb.Any{
		{TypeUrl: "type.googleapis.com/nobody.Knows", Value: []byte("\x01\xff")},
		{TypeUrl: "type.googleapis.com/testbackend.Resource", Value: b.Encode("Resource", `{"resourceId":"r"}`)},
	}}).Err()
}

const detailsOfNotFound = `[{"@type":"type.googleapis.com/nobody.Knows","value":"Af8="},{"@type":"type.googleapis.com/testbackend.Resource","resourceId":"r"}]`

// An error looks as the config says, with its details by the backend's types and
// those that no type is known of as bytes, in unary answers and in streams.
func TestErrorFormats(t *testing.T) {
	t.Parallel()
	problem := `{"type":"about:blank","title":"Not Found","status":404,"detail":"gone, é","code":"NOT_FOUND","details":` + detailsOfNotFound + `}`
	envelope := `{"code":5,"msg":"gone, é","data":{"details":` + detailsOfNotFound + `}}`
	rpcStatus := `{"code":5,"message":"gone, é","details":` + detailsOfNotFound + `}`
	for _, tc := range []struct {
		name, settings, rest           string
		contentType, whole, inAStream  string
		message, unrouted, badRequests string
	}{
		{"status", "", "", "application/json", rpcStatus, `{"error":` + rpcStatus + `}`, `{"small":1}`,
			`{"code":5,"message":"no route matches the request"`, `{"code":3,"message":"small: `},
		{"problem", "", asProblem, "application/problem+json", problem, `{"error":` + problem + `}`, `{"small":1}`,
			`{"type":"about:blank","title":"Not Found","status":404,"detail":"no route matches the request","code":"NOT_FOUND","reason":"NO_ROUTE","details":[`,
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"small: `},
		{"envelope", "", asEnvelope, "application/json", envelope, envelope, `{"code":0,"msg":"ok","data":{"small":1}}`,
			`{"code":5,"msg":"no route matches the request","data":{"reason":"NO_ROUTE","details":[`, `{"code":3,"msg":"small: `},
		{"the backend's", "errors: envelope", asProblem, "application/json", envelope, envelope, `{"code":0,"msg":"ok","data":{"small":1}}`,
			`{"type":"about:blank","title":"Not Found",`, `{"code":3,"msg":"small: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, b := newEchoRig(t, "json: {emit_defaults: false}\n"+tc.settings, tc.rest)
			r.call(t, "POST", "/v1/echo", `{"small":1}`).ok(t, tc.message)
			b.Handle("Echo/Unary", func(*testbackend.Stream) error { return notFoundWithDetails(b) })
			a := r.call(t, "POST", "/v1/echo", `{}`)
			if a.Status != 404 {
				t.Errorf("status %d", a.Status)
			}
			sameJSON(t, a.Body, tc.whole)
			wantHeader(t, a.Header, "Content-Type", tc.contentType)

			answers(b, 1, notFoundWithDetails(b))
			a = r.call(t, "GET", "/v1/echo:stream", "")
			lines := strings.Split(a.Body, "\n")
			if len(lines) != 3 {
				t.Fatalf("%q", a.Body)
			}
			sameJSON(t, lines[0], tc.message)
			sameJSON(t, lines[1], tc.inAStream)
			a = r.call(t, "GET", "/v1/echo:stream", "", "Accept", "text/event-stream")
			_, event, _ := strings.Cut(a.Body, "event: error\ndata: ")
			sameJSON(t, event, tc.whole)

			if a = r.call(t, "GET", "/nowhere", ""); !strings.HasPrefix(a.Body, tc.unrouted) || !json.Valid([]byte(a.Body)) {
				t.Errorf("unrouted: %s", a.Body)
			}
			a = r.call(t, "POST", "/v1/echo", `{"small":"x"}`)
			if a.Status != 400 || !strings.HasPrefix(a.Body, tc.badRequests) || !json.Valid([]byte(a.Body)) {
				t.Errorf("bad request: %d %s", a.Status, a.Body)
			}
		})
	}
}

// Bad JSON is a 400 in the configured format that names the field, and none of
// it in the words of Go.
func TestBadJSONInTheCallersWords(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", asProblem)
	for body, field := range map[string]string{
		`{"sub":{"size":"x"}}`:            "sub.size",
		`{"subs":[{},{"size":1.5}]}`:      "subs[1].size",
		`{"sub":{"name":}}`:               "sub.name",
		`{"subByName":{"a":{"size":`:      "subByName",
		`{"labels":{"a":1}}`:              "labels",
		`{"text":"a","text":"b"}`:         "text",
		`{"number":99999999999999999999}`: "number",
	} {
		a := r.call(t, "POST", "/v1/echo", body)
		wantHeader(t, a.Header, "Content-Type", "application/problem+json")
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, field) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
		for _, word := range []string{"json:", "proto:", "strconv", "invalid character", "looking for", "unmarshal", "unexpected end of JSON", "int64,", "Go "} {
			if strings.Contains(a.Body, word) {
				t.Errorf("%s: %q in %s", body, word, a.Body)
			}
		}
	}
	untouched(t, b)
}

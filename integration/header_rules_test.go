package integration_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const headerRules = `headers: {request: {allow: [X-Tenant, Cookie, X-Raw-Bin], deny: [x-debug], rename: {X-User: user}, set: {via: rpcgate}}, response: {allow: [Set-Cookie, Location, ETag], deny: [x-internal-*], rename: {x-version: API-Version}, set: {X-Content-Type-Options: nosniff}}}`

const moreRules = `routes:
  - method: testbackend.Echo/ServerStream
    headers: {request: {deny: [x-tenant], allow: [x-debug]}, response: {deny: [ETag]}}
`

// A backend's rules hold for its routes, whatever the caller speaks; a method's
// own come after them.
func TestHeaderRules(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, headerRules, moreRules)
	sent := []string{
		"X-Tenant", "blue", "X-Tenant", "green", "Cookie", "a=1", "X-Raw-Bin", "AQI=,AP8", "X-User", "ada", "X-Debug", "9", "X-Other", "no",
		"Grpc-Metadata-X-Debug", "9", "Connection", "X-Tenant2", "X-Tenant2", "1", "Authorization", r.bearer(),
	}
	r.do(t, r.http1, "GET", "/v1/echo", "", sent...).ok(t, "")
	md := only(t, b).Metadata
	for key, want := range map[string][]string{
		"x-tenant": {"blue", "green"}, "cookie": {"a=1"}, "grpcgateway-cookie": nil, "x-raw-bin": {"\x01\x02", "\x00\xff"}, "user": {"ada"},
		"x-user": nil, "x-debug": nil, "x-other": nil, "via": {"rpcgate"}, "token": {r.token}, "authorization": nil,
	} {
		wantMetadata(t, md, key, want...)
	}
	r.do(t, r.http2, "GET", "/v1/echo:stream", "", "X-Tenant", "blue", "X-Debug", "9", "Authorization", r.bearer()).ok(t, "")
	md = only(t, b).Metadata
	wantMetadata(t, md, "x-tenant")
	wantMetadata(t, md, "x-debug", "9")

	ctx := metadata.AppendToOutgoingContext(r.limited(t), "x-debug", "9", "x-user", "ada", "x-other", "yes", "x-raw-bin", "\x00\xff", "x-raw-bin", "a,b")
	if _, err := invoke(ctx, r.conn, unaryEcho, nil); err != nil {
		t.Fatal(err)
	}
	md = only(t, b).Metadata
	wantMetadata(t, md, "x-debug")
	wantMetadata(t, md, "user", "ada")
	wantMetadata(t, md, "x-other", "yes")
	wantMetadata(t, md, "x-raw-bin", "\x00\xff", "a,b")
	wantMetadata(t, md, "via", "rpcgate")

	r.call(t, "GET", "/v1/echo", "", "X-Tenant", "Zürich").failed(t, 400, codes.InvalidArgument, "BAD_METADATA")
	untouched(t, b)
}

func TestResponseHeaderRules(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, headerRules, moreRules)
	answer := func(err error) testbackend.Handler {
		return func(s *testbackend.Stream) error {
			msg, recvErr := s.Recv()
			if recvErr != nil {
				return recvErr
			}
			s.SetHeader(metadata.Pairs("set-cookie", "a=1", "set-cookie", "b=2", "location", "/v1/next", "etag", `"x"`, "x-internal-host", "db7",
				"x-version", "7", "other", "o", "content-length", "5", "connection", "close", "access-control-allow-origin", "*", "transfer-encoding", "chunked"))
			s.SetTrailer(metadata.Pairs("x-internal-load", "1", "mood", "good"))
			if err != nil {
				_ = s.SendHeader(nil)
				return err
			}
			return s.Send(msg)
		}
	}
	for name, err := range map[string]error{"answer": nil, "error": status.Error(codes.FailedPrecondition, "no")} {
		b.Handle("Echo/Unary", answer(err))
		a := r.call(t, "GET", "/v1/echo?text=x", "")
		if got := a.Header.Values("Set-Cookie"); !reflect.DeepEqual(got, []string{"a=1", "b=2"}) {
			t.Errorf("%s: cookies %q", name, got)
		}
		for header, want := range map[string]string{
			"Location": "/v1/next", "Etag": `"x"`, "Api-Version": "7", "Grpc-Metadata-Other": "o", "X-Content-Type-Options": "nosniff",
			"X-Internal-Host": "", "Grpc-Metadata-X-Internal-Host": "", "Grpc-Trailer-X-Internal-Load": "", "Grpc-Trailer-Mood": "good",
			"Access-Control-Allow-Origin": "", "Connection": "", "Content-Length": fmt.Sprint(len(a.Body)),
		} {
			wantHeader(t, a.Header, header, want)
		}
	}
	b.Handle("Echo/ServerStream", answer(nil))
	a := r.do(t, r.http2, "GET", "/v1/echo:stream", "", "Authorization", r.bearer())
	wantHeader(t, a.Header, "Etag", "")
	wantHeader(t, a.Header, "Location", "/v1/next")
	wantHeader(t, a.Trailer, "Grpc-Trailer-Mood", "good")

	b.Handle("Echo/Unary", answer(nil))
	var header, trailer metadata.MD
	if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	wantMetadata(t, header, "api-version", "7")
	wantMetadata(t, header, "x-content-type-options", "nosniff")
	wantMetadata(t, header, "x-internal-host")
	wantMetadata(t, trailer, "x-internal-load")
	wantMetadata(t, trailer, "mood", "good")
}

// A flood of headers is bounded by http.max_header_size, and those that rules
// let through with it.
func TestHeaderFlood(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "headers: {request: {allow: ['*']}}", "http: {address: '127.0.0.1:0', max_header_size: 16KiB}\n")
	flood := make([]string, 0, 4000)
	for i := range 2000 {
		flood = append(flood, fmt.Sprintf("X-Flood-%d", i), "x")
	}
	for _, client := range []*http.Client{r.http1, r.http2} {
		resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/echo", "", append(flood, "Authorization", r.bearer())...))
		if err != nil {
			continue // HTTP/2 may end the stream instead
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d", resp.Proto, resp.StatusCode)
		}
	}
	untouched(t, b)
	r.call(t, "GET", "/v1/echo", "", append(flood[:600:600], "Accept", "*/*")...).ok(t, "")
	n := 0
	for key := range only(t, b).Metadata {
		if strings.HasPrefix(key, "x-flood-") {
			n++
		}
	}
	if n != 300 {
		t.Errorf("%d of 300 headers came", n)
	}
}

package integration_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
)

// Fault 1: a field that the path binds cannot be set again by the query, under
// either of its names.
func TestFault1PathBeatsQuery(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ target, want string }{
		{"/admin/A?resourceId=B", `{"resourceId":"A"}`},
		{"/admin/A?resource_id=B", `{"resourceId":"A"}`},
		{"/admin/A?resource_id=B&view=full&resourceId=C", `{"resourceId":"A","view":"full"}`},
		{"/admin/A?resource%5Fid=B", `{"resourceId":"A"}`},
	} {
		a := r.call(t, "GET", tc.target, "")
		calls := b.Take()
		if a.Status == 400 && len(calls) == 0 {
			continue // refused: nobody is told a resource that was not asked for
		}
		a.ok(t, "")
		sameJSON(t, b.JSON("GetResourceRequest", calls[0].Requests()[0]), tc.want)
	}
	// What lies in the body cannot be set again either.
	r.call(t, "PUT", "/v1/echo/x?sub.name=evil&small=2", `{"name":"good"}`)
	for _, c := range b.Take() {
		sameJSON(t, b.JSON("Shapes", c.Requests()[0]), `{"text":"x","small":2,"sub":{"name":"good"}}`)
	}
}

// Fault 2: path variables are decoded exactly once, and an encoded slash stays
// inside of a variable of one segment.
func TestFault2PathDecoding(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ path, want string }{
		{"/admin/plain", `{"resourceId":"plain"}`},
		{"/admin/a%2Fb", `{"resourceId":"a/b"}`},
		{"/admin/a%2fb", `{"resourceId":"a/b"}`},
		{"/admin/a%2523b", `{"resourceId":"a%23b"}`},
		{"/admin/a%23b", `{"resourceId":"a#b"}`},
		{"/admin/a+b", `{"resourceId":"a+b"}`},
		{"/admin/a%20b", `{"resourceId":"a b"}`},
		{"/admin/%3F%26", `{"resourceId":"?&"}`},
		{"/admin/%C3%A9", `{"resourceId":"é"}`},
		{"/admin/..", ""},
	} {
		t.Run(tc.path, func(t *testing.T) {
			a := r.call(t, "GET", tc.path, "")
			if tc.want == "" {
				b.Take()
				return
			}
			a.ok(t, "")
			sawRequest(t, b, "GetResourceRequest", tc.want)
		})
	}
	for _, path := range []string{"/admin/a%zz", "/admin/a%2", "/admin/%"} {
		// net/http's client would not send it.
		if got := rawHTTP(t, r, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: "+r.bearer()+"\r\nConnection: close\r\n\r\n"); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	// Bytes that are no UTF-8 are no string.
	r.call(t, "GET", "/admin/%FF", "").failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	untouched(t, b)
}

// The grammar of google.api.http, through annotations.
func TestAnnotatedRoutes(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	for _, tc := range []struct {
		method, path, body string
		answer             string // JSON
		request            string // JSON; "": as the answer
	}{
		{"POST", "/v1/echo", `{"text":"a"}`, `{"text":"a"}`, ""},
		{"GET", "/v1/echo?text=a", "", `{"text":"a"}`, ""},
		{"PUT", "/v1/echo/a", `{"name":"b"}`, `{"text":"a","sub":{"name":"b"}}`, ""},
		{"PUT", "/v1/echo/a?small=3", ``, `{"text":"a","small":3}`, ""},
		{"PATCH", "/v1/echo/b", `{"size":"7"}`, `{"name":"b","size":"7"}`, `{"sub":{"name":"b","size":"7"},"mask":"size"}`},
		{"POST", "/v1/echo:shout", `{"text":"a"}`, `"a"`, `{"text":"a"}`},
		{"POST", "/v1/echo/list", `[{"name":"a"},{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]`, `{"subs":[{"name":"a"},{"name":"b"}]}`},
		{"DELETE", "/v1/echo/9007199254740993", "", `{"number":"9007199254740993"}`, ""},
		{"LOOK", "/v1/echo?flag=true", "", `{"flag":true}`, ""},
		{"GET", "/v1/shelves/1/books/2/3", "", `{"text":"shelves/1/books/2/3"}`, ""},
		{"GET", "/v1/shelves/a%2Fb/books/c", "", `{"text":"shelves/a/b/books/c"}`, ""},
		{"GET", "/v1/dirs/x/y/z", "", `{"text":"y/z"}`, ""},
		{"GET", "/v1/dirs/x", "", ``, ""},
		{"POST", "/testbackend.Echo/Unary", `{"text":"a"}`, `{"text":"a"}`, ""},
		{"POST", "/testbackend.Echo/Unary?text=b", `{"small":1}`, ``, ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			a := r.call(t, tc.method, tc.path, tc.body)
			if tc.answer == "" { // whichever; it must be a clean answer
				if a.Status >= 500 {
					t.Errorf("%d: %s", a.Status, a.Body)
				}
				b.Take()
				return
			}
			a.ok(t, tc.answer)
			if tc.request == "" {
				tc.request = tc.answer
			}
			sawRequest(t, b, "Shapes", tc.request)
		})
	}
}

// Explicit routes: another way in to a method, with bindings of their own.
func TestExplicitRoutes(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "annotations: false\njson: {emit_defaults: false}", `
routes:
  - method: testbackend.Echo/Unary
    http:
      post: "/x/{sub.name=parts/*}:make"
      body: subs
      response_body: sub
      additional_bindings:
        - {get: "/x/{text=**}"}
        - {custom: {kind: PURGE, path: "/x"}, body: "*"}
  - {method: testbackend.Echo/ServerStream, http: {get: "/x:all"}}
`)
	r.call(t, "POST", "/x/parts/9:make?flag=true", `[{"name":"in"}]`).ok(t, `{"name":"parts/9"}`)
	sawRequest(t, b, "Shapes", `{"flag":true,"sub":{"name":"parts/9"},"subs":[{"name":"in"}]}`)
	r.call(t, "GET", "/x/a/b/c", "").ok(t, `{"text":"a/b/c"}`)
	r.call(t, "PURGE", "/x", `{"text":"all"}`).ok(t, `{"text":"all"}`)
	r.call(t, "GET", "/x:all?text=a", "").ok(t, `{"text":"a"}`)
	b.Take()
	// The annotations are off, the default binding is on.
	r.call(t, "POST", "/v1/echo", `{}`).failed(t, 404, codes.NotFound, "NO_ROUTE")
	r.call(t, "POST", "/testbackend.Echo/Unary", `{"text":"a"}`).ok(t, `{"text":"a"}`)
}

// 405 names what is allowed; OPTIONS and HEAD are answered.
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	a := r.call(t, "POST", "/admin/x", "{}")
	a.failed(t, 405, codes.Unimplemented, "METHOD_NOT_ALLOWED")
	if got := a.Header.Get("Allow"); got != "GET, HEAD, OPTIONS, PATCH" {
		t.Errorf("Allow: %q", got)
	}
	a = r.call(t, "OPTIONS", "/admin/x", "")
	if a.Status != 204 || a.Header.Get("Allow") != "GET, HEAD, OPTIONS, PATCH" || a.Body != "" {
		t.Errorf("OPTIONS: %d, Allow %q, %q", a.Status, a.Header.Get("Allow"), a.Body)
	}
	untouched(t, b)
	r.call(t, "OPTIONS", "/nowhere", "").failed(t, 404, codes.NotFound, "NO_ROUTE")
	r.call(t, "GET", "/nowhere", "").failed(t, 404, codes.NotFound, "NO_ROUTE")

	got := r.call(t, "GET", "/admin/x", "")
	head := r.call(t, "HEAD", "/admin/x", "")
	if head.Status != 200 || head.Body != "" || head.Header.Get("Content-Length") != got.Header.Get("Content-Length") {
		t.Errorf("HEAD: %d %q %q", head.Status, head.Body, head.Header)
	}
	head = r.do(t, r.http1, "HEAD", "/admin/x", "")
	if head.Status != 401 || head.Body != "" {
		t.Errorf("HEAD without a credential: %d %q", head.Status, head.Body)
	}
	_, err := invoke(r.limited(t), r.conn, "/testbackend.Echo/Nothing", nil)
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")
	_, err = invoke(r.limited(t), r.conn, "/nowhere.Service/Method", nil)
	grpcFailed(t, err, codes.Unimplemented, "NO_ROUTE")
}

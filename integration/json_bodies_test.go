package integration_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/codes"
)

func packed(t testing.TB, encoding, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if encoding == "zstd" {
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func unpacked(t testing.TB, encoding, data string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(data)
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Compressed bodies are understood, and bounded by what they decompress to.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "http: {address: '127.0.0.1:0', max_body_size: 64KiB}\n")
	large := `{"text":"` + strings.Repeat("x", 60<<10) + `"}`
	bomb := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, encoding := range []string{"gzip", "zstd"} {
		eachHTTP(t, r, func(t *testing.T, client *http.Client) {
			do := func(path, body string) answer {
				return r.do(t, client, "POST", path, body, "Authorization", r.bearer(), "Content-Encoding", encoding)
			}
			do("/v1/echo", packed(t, encoding, large)).ok(t, large)
			do("/v1/echo:collect", packed(t, encoding, strings.Repeat(large, 10))).ok(t, large)
			b.Take()
			do("/v1/echo", packed(t, encoding, bomb)).failed(t, 413, codes.ResourceExhausted, "BODY_TOO_LARGE")
			do("/v1/echo:collect", packed(t, encoding, bomb)).failed(t, 413, codes.ResourceExhausted, "MESSAGE_TOO_LARGE")
			do("/v1/echo", "no such data").failed(t, 400, codes.InvalidArgument, "BAD_BODY")
			do("/v1/echo:collect", "no such data").failed(t, 400, codes.InvalidArgument, "BAD_BODY")
			whole := packed(t, encoding, large)
			do("/v1/echo", whole[:len(whole)-5]).failed(t, 400, codes.InvalidArgument, "BAD_BODY")
			do("/v1/echo:collect", whole[:len(whole)-5]).failed(t, 400, codes.InvalidArgument, "BAD_BODY")
		})
	}
	r.call(t, "POST", "/v1/echo", large, "Content-Encoding", "identity").ok(t, large)
	for _, encoding := range []string{"br", "gzip, zstd", "gzip, gzip", "deflate"} {
		for _, path := range []string{"/v1/echo", "/v1/echo:collect"} {
			a := r.call(t, "POST", path, "{}", "Content-Encoding", encoding)
			a.failed(t, 415, codes.InvalidArgument, "CONTENT_ENCODING_UNSUPPORTED")
			wantHeader(t, a.Header, "Accept-Encoding", "gzip, zstd")
		}
	}
}

// Answers are compressed as callers accept it, from the configured size on.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	large := `{"text":"` + strings.Repeat("x", 5000) + `"}`
	for _, tc := range []struct{ accept, want string }{
		{"", ""}, {"gzip", "gzip"}, {"gzip, deflate, br, zstd", "zstd"}, {"gzip;q=1, zstd;q=0.5", "gzip"}, {"*", "zstd"},
		{"br", ""}, {"gzip;q=0", ""}, {"identity, gzip;q=0.5", ""}, {"zstd;q=0, *", "gzip"},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			eachHTTP(t, r, func(t *testing.T, client *http.Client) {
				for _, method := range []string{"POST", "HEAD"} {
					target, body := "/v1/echo", large
					if method == "HEAD" {
						target, body = "/v1/echo?text="+strings.Repeat("x", 5000), ""
					}
					header := []string{"Authorization", r.bearer()}
					if tc.accept != "" {
						header = append(header, "Accept-Encoding", tc.accept)
					}
					a := r.do(t, client, method, target, body, header...)
					wantHeader(t, a.Header, "Content-Encoding", tc.want)
					wantHeader(t, a.Header, "Vary", "Accept-Encoding")
					if a.Status != 200 {
						t.Errorf("status %d", a.Status)
					}
					if method == "POST" {
						sameJSON(t, unpacked(t, tc.want, a.Body), large)
						wantHeader(t, a.Header, "Content-Length", fmt.Sprint(len(a.Body)))
					}
				}
			})
		})
	}
	a := r.call(t, "POST", "/v1/echo", `{"text":"small"}`, "Accept-Encoding", "gzip")
	wantHeader(t, a.Header, "Content-Encoding", "")
	a.ok(t, `{"text":"small"}`)

	// Streams: each message can be read as it comes.
	answers(b, 3, nil)
	for _, encoding := range []string{"gzip", "zstd"} {
		a = r.call(t, "GET", "/v1/echo:stream", "", "Accept-Encoding", encoding)
		wantHeader(t, a.Header, "Content-Encoding", encoding)
		if text := unpacked(t, encoding, a.Body); text != "{\"small\":1}\n{\"small\":2}\n{\"small\":3}\n" {
			t.Errorf("%q", text)
		}
		wantHeader(t, a.Trailer, "Grpc-Status", "0")
	}
	// Not so what is compressed already.
	for kind, want := range map[string]string{"image/png": "", "application/zip": "", "text/csv; charset=utf-8": "gzip", "image/svg+xml": "gzip"} {
		a = r.call(t, "POST", "/v1/raw", strings.Repeat("x", 5000), "Content-Type", kind, "Accept-Encoding", "gzip")
		wantHeader(t, a.Header, "Content-Encoding", want)
		if text := unpacked(t, want, a.Body); len(text) != 5000 {
			t.Errorf("%s: %d bytes", kind, len(text))
		}
	}
	off, _ := newEchoRig(t, "", "http: {address: '127.0.0.1:0', compression: {encodings: []}}\n")
	a = off.call(t, "POST", "/v1/echo", large, "Accept-Encoding", "gzip")
	wantHeader(t, a.Header, "Content-Encoding", "")
	wantHeader(t, a.Header, "Vary", "")
}

// Forms are for routes that take them; elsewhere they are refused, but what curl
// only calls a form is JSON everywhere.
func TestForms(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	plain, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	plain.call(t, "POST", "/v1/echo", `{"text":"a=b"}`, "Content-Type", form).ok(t, `{"text":"a=b"}`)
	b.Take()
	plain.call(t, "POST", "/v1/echo", "text=a&small=1", "Content-Type", form).failed(t, 415, codes.InvalidArgument, "CONTENT_TYPE_UNSUPPORTED")
	plain.call(t, "POST", "/v1/echo", "--x--", "Content-Type", "Multipart/Form-Data; boundary=x").
		failed(t, 415, codes.InvalidArgument, "CONTENT_TYPE_UNSUPPORTED")
	plain.call(t, "POST", "/v1/echo", `{"small":1}`, "Content-Type", "text/plain").ok(t, `{"small":1}`)
	b.Take()
	forms, b := newEchoRig(t, "json: {emit_defaults: false}\nforms: true", "")
	forms.call(t, "POST", "/v1/echo", "text=a%20b&small=1&sub.name=n&texts=x&texts=y", "Content-Type", form+"; charset=utf-8").
		ok(t, `{"text":"a b","small":1,"sub":{"name":"n"},"texts":["x","y"]}`)
	b.Take()
	forms.call(t, "PUT", "/v1/echo/here?small=2", "name=n&size=3", "Content-Type", form).ok(t, "")
	sawRequest(t, b, "Shapes", `{"text":"here","small":2,"sub":{"name":"n","size":"3"}}`)
	forms.call(t, "POST", "/v1/echo", `{"small":1}`, "Content-Type", form).ok(t, `{"small":1}`)
	b.Take()
	forms.call(t, "POST", "/v1/echo", "small=x", "Content-Type", form).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	untouched(t, b)
}

// Fields of one request come from the query, the path and the body at once; what
// maps to nothing is refused if the backend wants it so.
func TestQueryBesideBody(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {discard_unknown: false}", "")
	r.call(t, "PUT", "/v1/echo/here?small=2&number=3", `{"name":"n"}`).ok(t, "")
	sawRequest(t, b, "Shapes", `{"text":"here","small":2,"number":"3","sub":{"name":"n"}}`)
	r.call(t, "PUT", "/v1/echo/here?nothing=2", `{"name":"n"}`).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	r.call(t, "PUT", "/v1/echo/here?small=2", `{"nothing":"n"}`).failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
	untouched(t, b)
}

// A PATCH says by its body which fields it sets, unless it says so itself.
func TestPatchFillsTheMask(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	r.call(t, "PATCH", "/admin/r1", `{"view":"full"}`).ok(t, "")
	sawRequest(t, b, "UpdateResourceRequest", `{"resource":{"resourceId":"r1","view":"full"},"updateMask":"view"}`)
	r.call(t, "PATCH", "/admin/r1?update_mask=resource_id", `{"view":"full"}`).ok(t, "")
	sawRequest(t, b, "UpdateResourceRequest", `{"resource":{"resourceId":"r1","view":"full"},"updateMask":"resourceId"}`)
}

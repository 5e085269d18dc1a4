package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// Each limit exceeded is told with the right status; what is within it passes,
// and the gateway goes on serving.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', max_body_size: 1000}\n")
	body := func(n int) string { return `{"text":"` + strings.Repeat("x", n-len(`{"text":""}`)) + `"}` }
	for name, client := range map[string]*http.Client{"HTTP1": r.http1, "h2c": r.http2} {
		t.Run(name, func(t *testing.T) {
			r.do(t, client, "POST", "/v1/echo", body(1000), "Authorization", r.bearer()).ok(t, "")
			b.Take()
			for _, n := range []int{1001, 1 << 20} {
				r.do(t, client, "POST", "/v1/echo", body(n), "Authorization", r.bearer()).
					failed(t, 413, codes.ResourceExhausted, "BODY_TOO_LARGE")
				a := sendChunked(t, r, client, body(n))
				a.failed(t, 413, codes.ResourceExhausted, "BODY_TOO_LARGE")
			}
			untouched(t, b)
			sendChunked(t, r, client, body(1000)).ok(t, "")
			b.Take()
			// Nor is one read that the route has no use for.
			if a := r.do(t, client, "GET", "/v1/echo", body(5000), "Authorization", r.bearer()); a.Status != 413 && a.Status != 200 {
				t.Errorf("GET with a body: %d", a.Status)
			}
			b.Take()
		})
	}
}

// sendChunked sends a body whose length is not told.
func sendChunked(t testing.TB, r *rig, client *http.Client, body string) answer {
	t.Helper()
	req := r.request(t, limited(t), "POST", "/v1/echo", "", "Authorization", r.bearer())
	req.Body = io.NopCloser(strings.NewReader(body))
	req.ContentLength = -1
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Proto, resp.Header, resp.Trailer, string(text)}
}

// A body that comes too slowly is 408, one that ends before its length is no
// call at all.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', body_timeout: 100ms}\n")
	head := "POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: " + r.bearer() + "\r\n"
	for _, rest := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		resp := rawHTTP(t, r, head+rest)
		text, _ := io.ReadAll(resp.Body)
		answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}.
			failed(t, 408, codes.DeadlineExceeded, "BODY_TIMEOUT")
	}

	// One that was refused is not waited for longer.
	resp := rawHTTP(t, r, "POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a credential: %s", resp.Status)
	}

	// Over HTTP/2 the connection goes on serving others.
	reader, writer := io.Pipe()
	defer writer.Close()
	req := r.request(t, limited(t), "POST", "/v1/echo", "", "Authorization", r.bearer())
	req.Body, req.ContentLength = reader, -1
	resp, err := r.http2.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}.
		failed(t, 408, codes.DeadlineExceeded, "BODY_TIMEOUT")
	untouched(t, b)
	r.do(t, r.http2, "POST", "/v1/echo", "{}", "Authorization", r.bearer()).ok(t, "")

	conn := rawConn(t, r.HTTP)
	fmt.Fprintf(conn, "%sContent-Length: 100\r\n\r\n{\"text\":", head)
	_ = conn.Close()
	r.WaitLog(`"code":`, `"/v1/echo"`)
	b.Take()
	r.call(t, "POST", "/v1/echo", `{}`).ok(t, "")
	only(t, b)
}

// Headers that are too large are 431, a URL that is too long 414 or 431; what
// is no HTTP is 400.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', max_header_size: 4KiB}\n")
	// net/http allows 4 KiB more than it is told to.
	big := strings.Repeat("x", 16<<10)
	auth := "Authorization: " + r.bearer() + "\r\nHost: x\r\n\r\n"
	for name, tc := range map[string]struct {
		request string
		status  []int
	}{
		"headers":     {"GET /v1/echo HTTP/1.1\r\nX-Big: " + big + "\r\n" + auth, []int{431}},
		"URL":         {"GET /v1/echo?text=" + big + " HTTP/1.1\r\n" + auth, []int{414, 431}},
		"no HTTP":     {"hello\r\n\r\n", []int{400}},
		"no host":     {"GET /v1/echo HTTP/1.1\r\n\r\n", []int{400}},
		"bad header":  {"GET /v1/echo HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", []int{400}},
		"two lengths": {"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", []int{400}},
		"bad chunk":   {"POST /v1/echo HTTP/1.1\r\nAuthorization: " + r.bearer() + "\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", []int{400}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rawHTTP(t, r, tc.request).StatusCode
			for _, want := range tc.status {
				if got == want {
					return
				}
			}
			t.Errorf("status %d, want %v", got, tc.status)
		})
	}
	untouched(t, b)
	r.call(t, "GET", "/v1/echo", "").ok(t, "")
}

// A URL within the header limit is served, however long.
func TestLongURL(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	long := strings.Repeat("x", 32<<10)
	r.call(t, "GET", "/admin/"+long, "").ok(t, "")
	only(t, b)
	r.call(t, "GET", "/"+strings.Repeat("a/", 8<<10), "").failed(t, 404, codes.NotFound, "NO_ROUTE")
}

// Messages over the limit are RESOURCE_EXHAUSTED, from the caller and from the
// backend, and are not the other side's business.
func TestMessageLimits(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "conn: {max_receive_size: 3000, max_send_size: 2000}",
		"grpc: {address: '127.0.0.1:0', max_message_size: 1000}\n")
	within, tooLarge := make([]byte, 990), make([]byte, 1001)
	if _, err := invoke(r.limited(t), r.conn, unaryEcho, within); err != nil {
		t.Fatal(err)
	}
	b.Take()
	// Of the caller's own message grpc-go tells by itself, without a reason.
	_, err := invoke(r.limited(t), r.conn, unaryEcho, tooLarge)
	grpcFailed(t, err, codes.ResourceExhausted, "")
	untouched(t, b)
	s := rawStream(t, r.limited(t), r.conn, "/testbackend.Echo/Bidi")
	_ = s.send(string(tooLarge))
	_, err = s.recv()
	grpcFailed(t, err, codes.ResourceExhausted, "")
	nothingRead(t, b)

	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return s.Send(make([]byte, 3001))
	})
	_, err = invoke(r.limited(t), r.conn, unaryEcho, within)
	grpcFailed(t, err, codes.ResourceExhausted, "MESSAGE_TOO_LARGE")
	r.call(t, "GET", "/v1/echo", "").failed(t, http.StatusBadGateway, codes.ResourceExhausted, "MESSAGE_TOO_LARGE")

	// Over JSON a request may be larger than what the backend is sent.
	b.Take()
	r.call(t, "POST", "/v1/echo", `{"text":"`+strings.Repeat("x", 2001)+`"}`).
		failed(t, http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "MESSAGE_TOO_LARGE")
	nothingRead(t, b)

	// Metadata over the limit never gets in. (The call before may come late.)
	ctx := metadata.AppendToOutgoingContext(r.limited(t), "big", strings.Repeat("x", 100<<10))
	if _, err := invoke(ctx, r.conn, "/testbackend.Admin/GetResource", nil); err == nil {
		t.Error("100 KiB of metadata passed")
	}
	for _, c := range b.Take() {
		if c.Method == "/testbackend.Admin/GetResource" {
			t.Error("100 KiB of metadata reached the backend")
		}
	}
	b.Handle("Echo/Unary", nil)
	if _, err := invoke(r.limited(t), r.conn, unaryEcho, within); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// nothingRead checks that the backend got no message. It may have seen the
// beginning of the call.
func nothingRead(t testing.TB, b *testbackend.Server) {
	t.Helper()
	for _, c := range b.Take() {
		if len(c.Requests()) > 0 {
			t.Errorf("a message of %s reached the backend", c.Method)
		}
	}
}

// A caller that sends a gRPC message compressed in a way that nobody knows is
// told so.
func TestUnknownCompression(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	c := dialFrames(t, r.GRPC)
	c.headers(1, false, append(grpcHeaders(unaryEcho), "app", r.app, "token", r.token, "grpc-encoding", "mystery")...)
	c.data(1, true, "\x01\x00\x00\x00\x01x")
	got := c.answer(1)
	if s := got.last().get("grpc-status"); s != "12" {
		t.Errorf("grpc-status %q: %+v", s, got)
	}
	untouched(t, b)
}

// A caller that reads nothing of a stream holds back its backend, and nobody
// else.
func TestSlowReaderHoldsBackItsOwnStream(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	sent := make(chan int, 1)
	chunk := b.Encode("Shapes", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 64<<10)))
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		for n := 1; n <= 1000; n++ {
			if err := s.Send(chunk); err != nil {
				sent <- n
				return err
			}
		}
		sent <- 1000
		return nil
	})
	ctx, hangUp := context.WithCancel(r.limited(t))
	s := rawStream(t, ctx, dial(t, r.GRPC, grpc.WithStaticStreamWindowSize(64<<10)), "/testbackend.Echo/ServerStream")
	if err := s.send(""); err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	if _, err := s.recv(); err != nil {
		t.Fatal(err)
	}
	// Calls beside it go through, one after the other.
	for range 20 {
		r.call(t, "GET", "/v1/echo", "").ok(t, "")
		if _, err := invoke(r.limited(t), r.conn, unaryEcho, nil); err != nil {
			t.Fatal(err)
		}
	}
	hangUp()
	if n := waitFor(t, sent, "the backend's end"); n >= 1000 {
		t.Errorf("the backend sent all %d messages to a caller that read one", n)
	}
}

// The HTTP port tells a caller that is slow with its headers goodbye.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "http: {address: '127.0.0.1:0', read_header_timeout: 100ms}\n")
	conn := rawConn(t, r.HTTP)
	fmt.Fprint(conn, "GET /v1/echo HTTP/1.1\r\nHost")
	if text, err := bufio.NewReader(conn).ReadString(0); err != io.EOF {
		t.Errorf("%q, %v", text, err)
	}
	untouched(t, b)
}

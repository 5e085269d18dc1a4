package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// eachHTTP runs a test over HTTP/1.1 and over HTTP/2.
func eachHTTP(t *testing.T, r *rig, run func(t *testing.T, client *http.Client)) {
	t.Helper()
	for name, client := range map[string]*http.Client{"HTTP1": r.http1, "h2c": r.http2} {
		t.Run(name, func(t *testing.T) { run(t, client) })
	}
}

// send begins a request whose body is written by the test as it goes.
func (r *rig) send(t testing.TB, client *http.Client, method, target string, header ...string) (body *io.PipeWriter, answered <-chan *http.Response) {
	t.Helper()
	from, to := io.Pipe()
	t.Cleanup(func() { _ = to.CloseWithError(errors.New("the test is over")) })
	req, err := http.NewRequestWithContext(limited(t), method, "http://"+r.HTTP+target, from)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", r.bearer())
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answers := make(chan *http.Response, 1)
	go func() {
		defer close(answers)
		resp, err := client.Do(req)
		if err != nil {
			t.Logf("%s %s: %v", method, target, err)
			return
		}
		answers <- resp
	}()
	return to, answers
}

// A client stream is a body of JSON values in a row or in an array, each of which
// becomes one message with what the path says.
func TestJSONClientStream(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "http: {address: '127.0.0.1:0', max_body_size: 64KiB}\n")
	large := `{"text":"` + strings.Repeat("x", 60<<10) + `"}`
	for _, tc := range []struct {
		name, body string
		messages   int
		last       string
	}{
		{"none", "", 0, ""},
		{"blank", " \n", 0, ""},
		{"empty array", "[]", 0, ""},
		{"lines", "{\"small\":1}\n{\"small\":2}\n", 2, `{"small":2}`},
		{"joined", `{"small":1}{"small":2}{}`, 3, `{}`},
		{"array", `[ {"small":1}, {"small":2} ]`, 2, `{"small":2}`},
		{"more than one body may be", strings.Repeat(large+"\n", 20), 20, large},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachHTTP(t, r, func(t *testing.T, client *http.Client) {
				if tc.messages == 0 {
					b.Handle("Echo/ClientStream", func(s *testbackend.Stream) error {
						if _, err := s.Recv(); !errors.Is(err, io.EOF) {
							return fmt.Errorf("got %w", err)
						}
						return s.Send(nil)
					})
					defer b.Handle("Echo/ClientStream", nil)
				}
				a := r.do(t, client, "POST", "/v1/echo:collect", tc.body, "Authorization", r.bearer())
				if tc.last == "" {
					a.ok(t, "{}")
				} else {
					a.ok(t, tc.last)
				}
				if got := only(t, b).Requests(); len(got) != tc.messages {
					t.Errorf("%d messages reached the backend, want %d", len(got), tc.messages)
				}
			})
		})
	}
}

// What is wrong in a stream is told with the number of its message, and ends the
// backend's call.
func TestJSONClientStreamThatIsBad(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "http: {address: '127.0.0.1:0', max_body_size: 4KiB}\n")
	for _, tc := range []struct {
		name, body string
		status     int
		reason     string
		text       string
	}{
		{"bad JSON", `{"small":1}` + "\n" + `{"sub":{"size":x}}`, 400, "BAD_REQUEST", "message 2 of the body: sub.size"},
		{"bad value", `[{"small":1},{},{"small":1.5}]`, 400, "BAD_REQUEST", "message 3 of the body: small"},
		{"cut off", `{"small":1}{"small":`, 400, "BAD_REQUEST", "message 2 of the body"},
		{"array not closed", `[{"small":1}`, 400, "BAD_REQUEST", "message 2 of the body"},
		{"commas without an array", `{},{}`, 400, "BAD_REQUEST", "message 2 of the body"},
		{"more after the array", `[{}] x`, 400, "BAD_REQUEST", "message 2 of the body"},
		{"no messages", `true`, 400, "BAD_REQUEST", "message 1 of the body"},
		{"no JSON", `text`, 400, "BAD_REQUEST", "message 1 of the body: malformed JSON"},
		{"too large", `{}{"text":"` + strings.Repeat("x", 5000) + `"}`, 413, "MESSAGE_TOO_LARGE", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachHTTP(t, r, func(t *testing.T, client *http.Client) {
				a := r.do(t, client, "POST", "/v1/echo:collect", tc.body, "Authorization", r.bearer())
				code := codes.InvalidArgument
				if tc.status == 413 {
					code = codes.ResourceExhausted
				}
				a.failed(t, tc.status, code, tc.reason)
				if !strings.Contains(a.Body, tc.text) {
					t.Errorf("%s does not say %q", a.Body, tc.text)
				}
			})
		})
	}
	for body, contentType := range map[string]string{"--x\r\n": "multipart/form-data; boundary=x", "text=x": "application/x-www-form-urlencoded"} {
		a := r.call(t, "POST", "/v1/echo:collect", body, "Content-Type", contentType)
		a.failed(t, 415, codes.InvalidArgument, "CONTENT_TYPE_UNSUPPORTED")
	}
}

// A stream that the backend refuses early is answered with the backend's status
// at once, while its caller still sends.
func TestClientStreamRefusedEarly(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	b.Handle("Echo/ClientStream", func(*testbackend.Stream) error {
		return status.Error(codes.Unauthenticated, "not you")
	})
	b.Handle("Echo/Bidi", func(*testbackend.Stream) error {
		return status.Error(codes.PermissionDenied, "not that")
	})
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		for path, want := range map[string]struct {
			status int
			code   codes.Code
		}{
			"/v1/echo:collect": {401, codes.Unauthenticated}, "/v1/echo:chat": {403, codes.PermissionDenied},
		} {
			body, answered := r.send(t, client, "POST", path)
			_, _ = io.WriteString(body, `{"text":"`) // and never the rest; it may be answered already
			resp := waitFor(t, answered, "the answer")
			if resp == nil {
				t.Fatal("no answer")
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			answer{resp.StatusCode, resp.Proto, resp.Header, resp.Trailer, string(text)}.failed(t, want.status, want.code, "")
		}
	})
	// And a caller that sends without end is not waited for.
	t.Run("without end", func(t *testing.T) {
		conn := rawConn(t, r.HTTP)
		_, _ = fmt.Fprintf(conn, "POST /v1/echo:collect HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nTransfer-Encoding: chunked\r\n\r\n", r.bearer())
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			chunk := "1000\r\n" + strings.Repeat(" ", 4096) + "\r\n"
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 401 || !resp.Close {
			t.Errorf("%v, %+v", err, resp)
		}
		waitFor(t, sent, "the end of the connection")
	})
}

// A refusal before anything of a stream is read, here for want of a credential,
// does not wait for the rest of it either.
func TestClientStreamWithoutCredential(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		body, answered := r.send(t, client, "POST", "/v1/echo:collect", "Authorization", "Bearer no.such")
		go func() { _, _ = io.WriteString(body, `{}`) }()
		resp := waitFor(t, answered, "the answer")
		if resp == nil || resp.StatusCode != 401 {
			t.Fatalf("%+v", resp)
		}
		_ = resp.Body.Close()
	})
	// Who asks before sending is told not to.
	conn := rawConn(t, r.HTTP)
	_, _ = io.WriteString(conn, "POST /v1/echo:collect HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != 401 || !resp.Close {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection goes on: %v", err)
	}
	untouched(t, b)
}

// A conversation over plain HTTP: each answer comes before the next message is
// sent.
func TestJSONConversation(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		body, answered := r.send(t, client, "POST", "/v1/rooms/here:chat")
		var lines *bufio.Scanner
		for i := range 20 {
			if _, err := fmt.Fprintf(body, `{"size":"%d"}`, i+1); err != nil {
				t.Fatal(err)
			}
			if lines == nil {
				resp := waitFor(t, answered, "the answer")
				defer resp.Body.Close()
				lines = bufio.NewScanner(resp.Body)
			}
			if !lines.Scan() {
				t.Fatalf("the stream ended: %v", lines.Err())
			}
			sameJSON(t, lines.Text(), fmt.Sprintf(`{"size":"%d"}`, i+1))
		}
		_ = body.Close()
		if lines.Scan() || lines.Err() != nil {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		requests := only(t, b).Requests()
		if len(requests) != 20 {
			t.Fatalf("%d messages", len(requests))
		}
		for i, m := range requests {
			sameJSON(t, b.JSON("Shapes", m), fmt.Sprintf(`{"text":"here","sub":{"size":"%d"}}`, i+1))
		}
	})
}

// The backend takes its time, and so does the upload: what the gateway holds of
// it is bounded.
func TestUploadIsNotBuffered(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	release := make(chan struct{})
	b.Handle("Echo/ClientStream", func(s *testbackend.Stream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		select {
		case <-release:
		case <-s.Context().Done():
			return s.Context().Err()
		}
		for {
			if _, err := s.Recv(); err != nil {
				break
			}
		}
		return s.Send(nil)
	})
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		body, answered := r.send(t, client, "POST", "/v1/echo:collect")
		line := `{"text":"` + strings.Repeat("x", 100<<10) + `"}` + "\n"
		var sent atomic.Int64
		done := make(chan error, 1)
		go func() {
			for range 640 { // 64 MB
				if _, err := io.WriteString(body, line); err != nil {
					done <- err
					return
				}
				sent.Add(int64(len(line)))
			}
			done <- body.Close()
		}()
		stuck, since := int64(-1), time.Now()
		gatewaytest.Eventually(t, func() error { // until nothing moves any more
			if n := sent.Load(); n == 0 || n != stuck {
				stuck, since = n, time.Now()
			}
			if time.Since(since) < 300*time.Millisecond {
				return fmt.Errorf("%d bytes were sent, and it goes on", stuck)
			}
			return nil
		})
		if n := sent.Load(); n > 32<<20 { // what windows and sockets hold
			t.Errorf("%d bytes went in while the backend did not read", n)
		}
		if live := r.liveHeap(); live > 48<<20 {
			t.Errorf("%d bytes are in use", live)
		}
		release <- struct{}{}
		if err := waitFor(t, done, "the upload"); err != nil {
			t.Fatal(err)
		}
		resp := waitFor(t, answered, "the answer")
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// A message that begins must end in time; between messages a caller may be
// silent for longer.
func TestUploadThatStalls(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "http: {address: '127.0.0.1:0', body_timeout: 400ms}\n")
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		body, answered := r.send(t, client, "POST", "/v1/echo:collect")
		if _, err := io.WriteString(body, `{}`); err != nil {
			t.Fatal(err)
		}
		paused := time.Now()
		gatewaytest.Eventually(t, func() error { // that nothing happens for longer than the limit
			if len(answered) > 0 {
				t.Fatal("a pause between two messages ended the call")
			}
			if time.Since(paused) < time.Second {
				return errors.New("the pause is not over")
			}
			return nil
		})
		if _, err := io.WriteString(body, `{"text":`); err != nil {
			t.Fatal(err)
		}
		resp := waitFor(t, answered, "the answer")
		if resp == nil {
			t.Fatal("no answer")
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answer{resp.StatusCode, resp.Proto, resp.Header, resp.Trailer, string(text)}.
			failed(t, 408, codes.DeadlineExceeded, "BODY_TIMEOUT")
	})
}

// A caller that hangs up in the middle of an upload ends the backend's call.
func TestUploadThatBreaksOff(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	for _, tc := range []struct{ method, path string }{{"Echo/ClientStream", "/v1/echo:collect"}, {"Echo/Bidi", "/v1/echo:chat"}} {
		eachHTTP(t, r, func(t *testing.T, client *http.Client) {
			begun, ended := holdCalls(b, tc.method)
			ctx, hangUp := context.WithCancel(limited(t))
			from, to := io.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.HTTP+tc.path, from)
				req.Header.Set("Authorization", r.bearer())
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			if _, err := io.WriteString(to, `{}{"text":`); err != nil {
				t.Fatal(err)
			}
			waitFor(t, begun, "the call at the backend")
			hangUp()
			if err := waitFor(t, ended, "the end of the backend's context"); !errors.Is(err, context.Canceled) {
				t.Errorf("the backend's context: %v", err)
			}
			_ = to.Close() // which net/http's client waits for
			<-done
		})
	}
}

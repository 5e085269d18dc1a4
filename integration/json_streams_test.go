package integration_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// answers makes the backend's stream send some messages and end with err.
func answers(b *testbackend.Server, messages int, err error) {
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		for i := range messages {
			if err := s.Send(b.Encode("Shapes", fmt.Sprintf(`{"small":%d}`, i+1))); err != nil {
				return err
			}
		}
		return err
	})
}

// A stream of answers is lines, an array or events, as Accept says.
func TestJSONStreamForms(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	const (
		lines  = "application/x-ndjson"
		array  = "application/json"
		events = "text/event-stream"
	)
	for _, tc := range []struct {
		accept   string
		messages int
		kind     string
		body     string
	}{
		{"", 2, lines, "{\"small\":1}\n{\"small\":2}\n"},
		{"*/*", 1, lines, "{\"small\":1}\n"},
		{"", 0, lines, ""},
		{"application/json", 2, array, `[{"small":1},{"small":2}]`},
		{"application/json, text/plain, */*", 1, array, `[{"small":1}]`},
		{"application/json", 0, array, `[]`},
		{"application/json;q=0.1, application/x-ndjson", 1, lines, "{\"small\":1}\n"},
		{"text/event-stream", 2, events, "data: {\"small\":1}\n\ndata: {\"small\":2}\n\nevent: end\ndata: {}\n\n"},
		{"text/event-stream", 0, events, "event: end\ndata: {}\n\n"},
		{"text/html", 1, lines, "{\"small\":1}\n"},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			eachHTTP(t, r, func(t *testing.T, client *http.Client) {
				answers(b, tc.messages, nil)
				header := []string{"Authorization", r.bearer()}
				if tc.accept != "" {
					header = append(header, "Accept", tc.accept)
				}
				a := r.do(t, client, "GET", "/v1/echo:stream", "", header...)
				if a.Status != 200 || a.Body != tc.body {
					t.Errorf("%d %q, want %q", a.Status, a.Body, tc.body)
				}
				wantHeader(t, a.Header, "Content-Type", tc.kind)
				wantHeader(t, a.Trailer, "Grpc-Status", "0")
			})
		})
	}
}

// A stream that fails has the failure's HTTP status while nothing was sent, and
// is never taken for whole after that, whatever its form.
func TestJSONStreamThatFails(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "")
	const failure = `{"code":5,"message":"gone","details":[]}`
	for _, tc := range []struct{ accept, body string }{
		{"application/x-ndjson", "{\"small\":1}\n{\"error\":" + failure + "}\n"},
		{"text/event-stream", "data: {\"small\":1}\n\nevent: error\ndata: " + failure + "\n\n"},
		{"application/json", `[{"small":1},{"error":` + failure + `}`},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			eachHTTP(t, r, func(t *testing.T, client *http.Client) {
				answers(b, 0, status.Error(codes.NotFound, "gone"))
				r.do(t, client, "GET", "/v1/echo:stream", "", "Authorization", r.bearer(), "Accept", tc.accept).
					failed(t, 404, codes.NotFound, "")

				answers(b, 1, status.Error(codes.NotFound, "gone"))
				resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/echo:stream", "",
					"Authorization", r.bearer(), "Accept", tc.accept))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if string(body) != tc.body {
					t.Errorf("%q, want %q", body, tc.body)
				}
				if cut := tc.accept == "application/json"; cut != (err != nil) {
					t.Errorf("the body ended with %v", err)
				} else if !cut {
					wantHeader(t, resp.Trailer, "Grpc-Status", "5")
				}
			})
		})
	}
}

// An event stream to which nothing happens has its headers with the first
// heartbeat, and is kept alive by more; the backend's late header is in the
// trailers.
func TestEventStreamHeartbeats(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "http: {address: '127.0.0.1:0', streams: {heartbeat: 50ms}}\n")
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		alive := make(chan struct{})
		b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
			select {
			case <-alive:
			case <-s.Context().Done():
				return s.Context().Err()
			}
			s.SetHeader(metadata.Pairs("colour", "red"))
			return s.Send(b.Encode("Shapes", `{"small":1}`))
		})
		resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/echo:stream", "", "Authorization", r.bearer(), "Accept", "text/event-stream"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wantHeader(t, resp.Header, "Cache-Control", "no-store")
		lines := bufio.NewScanner(resp.Body)
		for range 6 { // three comments and the blank lines after them
			if !lines.Scan() || lines.Text() != ":" && lines.Text() != "" {
				t.Fatalf("%q, %v", lines.Text(), lines.Err())
			}
		}
		alive <- struct{}{}
		var rest []string
		for lines.Scan() {
			if text := lines.Text(); text != ":" && text != "" {
				rest = append(rest, text)
			}
		}
		if got := strings.Join(rest, "|"); got != `data: {"small":1}|event: end|data: {}` || lines.Err() != nil {
			t.Errorf("%q, %v", got, lines.Err())
		}
		wantHeader(t, resp.Trailer, "Grpc-Metadata-Colour", "red")
	})
}

// Who watches for something that does not happen learns soon that the backend
// has taken the call, if the backend says so.
func TestStreamHeaderWithoutMessage(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		if err := s.SendHeader(metadata.Pairs("colour", "red")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	eachHTTP(t, r, func(t *testing.T, client *http.Client) {
		for _, accept := range []string{"*/*", "text/event-stream", "application/json"} {
			resp, err := client.Do(r.request(t, limited(t), "GET", "/v1/echo:stream", "", "Authorization", r.bearer(), "Accept", accept))
			if err != nil {
				t.Fatal(err)
			}
			wantHeader(t, resp.Header, "Grpc-Metadata-Colour", "red")
			_ = resp.Body.Close()
		}
	})
}

// A reader that is slow slows its backend down, costs no memory, and ends the
// backend's call when it goes.
func TestSlowReaderOfAStream(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "")
	text := b.Encode("Shapes", `{"text":"`+strings.Repeat("x", 100<<10)+`"}`)
	var sent atomic.Int64
	ended := make(chan error, 1)
	b.Handle("Echo/ServerStream", func(s *testbackend.Stream) error {
		for {
			if err := s.Send(text); err != nil {
				ended <- s.Context().Err()
				return err
			}
			sent.Add(int64(len(text)))
		}
	})
	for _, accept := range []string{"*/*", "text/event-stream"} {
		sent.Store(0)
		conn := rawConn(t, r.HTTP)
		_, _ = fmt.Fprintf(conn, "GET /v1/echo:stream HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nAccept: %s\r\n\r\n", r.bearer(), accept)
		stuck, since := int64(-1), time.Now()
		gatewaytest.Eventually(t, func() error {
			if n := sent.Load(); n == 0 || n != stuck {
				stuck, since = n, time.Now()
			}
			if time.Since(since) < 300*time.Millisecond {
				return fmt.Errorf("%d bytes were sent, and it goes on", stuck)
			}
			return nil
		})
		if stuck > 32<<20 { // what windows and sockets hold
			t.Errorf("%d bytes were taken from the backend while nobody read", stuck)
		}
		if live := r.liveHeap(); live > 48<<20 {
			t.Errorf("%d bytes are in use", live)
		}
		_ = conn.Close()
		if err := waitFor(t, ended, "the end of the backend's call"); err == nil {
			t.Error("the backend's context has not ended")
		}
	}
	gatewaytest.Eventually(t, func() error {
		if strings.Contains(r.AdminGet("/debug/pprof/goroutine?debug=1"), "jsonStream") {
			return errors.New("a stream is still served")
		}
		return nil
	})
}

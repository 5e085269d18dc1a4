package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
)

func TestCheckHandshake(t *testing.T) {
	t.Parallel()
	good := http.Header{
		"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		status int // 0: it is one
	}{
		"good":        {func(*http.Request) {}, 0},
		"HTTP/1.0":    {func(r *http.Request) { r.ProtoMinor = 0 }, 400},
		"connection":  {func(r *http.Request) { r.Header["Connection"] = []string{"upgraded"} }, 400},
		"version":     {func(r *http.Request) { r.Header["Sec-Websocket-Version"] = []string{"12"} }, 426},
		"no version":  {func(r *http.Request) { delete(r.Header, "Sec-Websocket-Version") }, 426},
		"no key":      {func(r *http.Request) { delete(r.Header, "Sec-Websocket-Key") }, 400},
		"long key":    {func(r *http.Request) { r.Header["Sec-Websocket-Key"] = []string{"AAAAAAAAAAAAAAAAAAAAAAAA"} }, 400},
		"two keys":    {func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==") }, 400},
		"with a body": {func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2 }, 400},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = good.Clone()
		tc.change(r)
		err := checkHandshake(r)
		status := 0
		if failure := describe(err); failure != nil {
			status = failure.HTTPStatus()
		}
		if status != tc.status {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCloseStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		failure *callError
		code    websocket.StatusCode
		reason  string
	}{
		{nil, websocket.StatusNormalClosure, ""},
		{errDraining, websocket.StatusServiceRestart, errDraining.Message},
		{errBadFrames, websocket.StatusProtocolError, ""},
		{errBadFrames.withoutDetails(), websocket.StatusProtocolError, ""},
		{&callError{Code: codes.Canceled, Message: "a"}, 4001, "a"},
		{&callError{Code: codes.Unauthenticated, Message: strings.Repeat("a", 124)}, 4016, strings.Repeat("a", 123)},
		{&callError{Code: codes.Internal, Message: strings.Repeat("é", 62)}, 4013, strings.Repeat("é", 61)},
		{&callError{Code: codes.Internal, Message: "\xff"}, 4013, ""},
	} {
		if code, reason := closeStatus(tc.failure); code != tc.code || reason != tc.reason {
			t.Errorf("%v gives %d %q, want %d %q", tc.failure, code, reason, tc.code, tc.reason)
		}
	}
}

func FuzzCloseReason(f *testing.F) {
	f.Add(strings.Repeat("é", 100))
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := closeReason(text)
		if len(got) > maxCloseReason || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
			t.Errorf("%q becomes %q", text, got)
		}
		if utf8.ValidString(text) && len(got) < len(text) && len(got) < maxCloseReason-3 {
			t.Errorf("%q is cut to %d bytes", text, len(got))
		}
	})
}

// io.EOF is the end of a caller's messages, and nothing else may be taken for it.
func TestReadFailure(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "read", Err: errors.New("reset")},
		websocket.CloseError{Code: websocket.StatusNormalClosure},
	} {
		if got := readFailure(err); errors.Is(got, io.EOF) || describe(got).Code != codes.Canceled {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if got := describe(readFailure(errors.New("received unknown opcode 3"))); got.Reason != "BAD_FRAME" {
		t.Errorf("a bad frame becomes %v", got)
	}
}

func TestUpgradesAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var u upgrades
		if err := u.wait(t.Context()); err != nil {
			t.Error(err)
		}
		a, b := net.Pipe()
		u.add(a)
		u.add(b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := u.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with two it gives %v", err)
		}
		u.remove(a)
		time.AfterFunc(time.Minute, func() { u.remove(b) })
		begun := time.Now()
		if err := u.wait(t.Context()); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("it gives %v after %v", err, time.Since(begun))
		}
		u.add(a)
		u.close()
		if _, err := a.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing to a closed one gives %v", err)
		}
		_ = b.Close()
	})
}

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rpcgate/rpcgate/config"
	"google.golang.org/grpc/codes"
)

func accessLog(cfg config.Log) (*AccessLog, *bytes.Buffer) {
	b := &bytes.Buffer{}
	return NewAccessLog(NewLogger(cfg, b), cfg), b
}

func TestAccessLine(t *testing.T) {
	t.Parallel()
	a, b := accessLog(config.Log{SuccessSample: 1, SlowThreshold: time.Second})
	logCall(t.Context(), a, Record{
		Protocol: "json", Verb: "GET", Method: "/v1/users/7", Route: "/v1/users/{id}", Backend: "shop",
		App: "acme", TokenID: "tok1", ClaimedApp: "evil", ClaimedTokenID: "tok2", Code: codes.NotFound, HTTPStatus: 404, Reason: "R", Err: errors.New("cause"),
		Duration: 1234567 * time.Nanosecond, BytesIn: 1, BytesOut: 2,
		ClientIP: netip.MustParseAddr("192.0.2.1"), RequestID: "req", RequestBody: []byte("\n\x01a"), ResponseBody: []byte{0xff},
	})
	got := lines(t, b)[0]
	delete(got, "time")
	want := map[string]any{
		"level": "INFO", "msg": "call", "protocol": "json", "verb": "GET", "method": "/v1/users/7", "route": "/v1/users/{id}",
		"backend": "shop", "app": "acme", "token_id": "tok1", "claimed_app": "evil", "claimed_token_id": "tok2",
		"code": "NOT_FOUND", "http_status": 404., "reason": "R", "error": "cause",
		"duration_ms": 1.235, "bytes_in": 1., "bytes_out": 2., "client_ip": "192.0.2.1", "request_id": "req",
		"request_body": "CgFh", "response_body": "/w==",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("line\n%v, want\n%v", got, want)
	}
}

func TestWhichCallsAreLogged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		cfg   config.Log
		r     Record
		level string // "" for no line
	}{
		{"success, none sampled", config.Log{SlowThreshold: time.Second}, Record{}, ""},
		{"success, all sampled", config.Log{SuccessSample: 1, SlowThreshold: time.Second}, Record{}, "INFO"},
		{"slow success", config.Log{SlowThreshold: time.Second}, Record{Duration: time.Second}, "WARN"},
		{"slow, but nothing counts as slow", config.Log{}, Record{Duration: time.Hour}, ""},
		{"a long stream", config.Log{SlowThreshold: time.Second}, Record{Duration: time.Hour, Streaming: true}, ""},
		{"the caller's fault", config.Log{}, Record{Code: codes.InvalidArgument}, "INFO"},
		{"the caller's fault, from warn on", config.Log{Level: "warn"}, Record{Code: codes.InvalidArgument}, ""},
		{"the backend's fault", config.Log{Level: "warn"}, Record{Code: codes.Unavailable}, "WARN"},
		{"a call for what no route has", config.Log{}, Record{Code: codes.Unimplemented, Reason: "NO_ROUTE"}, "INFO"},
		{"the backend lacks the method", config.Log{}, Record{Code: codes.Unimplemented}, "WARN"},
		{"a guess too many", config.Log{}, Record{Code: codes.ResourceExhausted, Reason: "TOO_MANY_FAILURES"}, "INFO"},
		{"a stream too long", config.Log{}, Record{Code: codes.DeadlineExceeded, Reason: "STREAM_LIFETIME"}, "INFO"},
		{"too large a body", config.Log{}, Record{Code: codes.ResourceExhausted, Reason: "BODY_TOO_LARGE"}, "INFO"},
		{"the pool is full", config.Log{}, Record{Code: codes.ResourceExhausted, Reason: "POOL_FULL"}, "WARN"},
		{"a response that is no message", config.Log{}, Record{Code: codes.Internal, Reason: "BAD_RESPONSE"}, "WARN"},
		{"a code of the backend's own", config.Log{}, Record{Code: 99}, "WARN"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := accessLog(tc.cfg)
			logCall(t.Context(), a, tc.r)
			got := lines(t, b)
			if tc.level == "" {
				if len(got) != 0 {
					t.Errorf("logged %v", got)
				}
				return
			}
			if len(got) != 1 || got[0]["level"] != tc.level {
				t.Errorf("logged %v, want one line at %s", got, tc.level)
			}
		})
	}
}

func TestSuccessesAreSampled(t *testing.T) {
	t.Parallel()
	a, b := accessLog(config.Log{SuccessSample: .1})
	const calls = 20_000
	for range calls {
		logCall(t.Context(), a, Record{})
	}
	// Six standard deviations to either side.
	if n := len(lines(t, b)); n < 1740 || n > 2260 {
		t.Errorf("%d of %d successes logged at a sample of 0.1", n, calls)
	}
}

func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := accessLog(config.Log{})
		flood := func() {
			for range 10_000 {
				logCall(t.Context(), a, Record{Code: codes.Unauthenticated})
			}
		}
		flood()
		if n := len(lines(t, b)); n != FailureLinesPerSecond {
			t.Fatalf("%d lines in a second, want %d", n, FailureLinesPerSecond)
		}
		// Another code has a bound of its own.
		logCall(t.Context(), a, Record{Code: codes.Unavailable})
		if n := len(lines(t, b)); n != 1 {
			t.Fatalf("%d lines of another code, want 1", n)
		}
		time.Sleep(time.Second)
		logCall(t.Context(), a, Record{Code: codes.Unauthenticated})
		if got := lines(t, b); len(got) != 1 || got[0]["suppressed"] != float64(10_000-FailureLinesPerSecond) {
			t.Fatalf("after a second: %v", got)
		}
		flood()
		b.Reset()
		a.Flush(t.Context())
		if got := lines(t, b); len(got) != 1 || got[0]["code"] != "UNAUTHENTICATED" || got[0]["suppressed"] != float64(10_000-FailureLinesPerSecond+1) {
			t.Fatalf("flushed %v", got)
		}
		a.Flush(t.Context())
		if got := lines(t, b); len(got) != 0 {
			t.Fatalf("flushed twice: %v", got)
		}
	})
}

func TestCallersTextIsBounded(t *testing.T) {
	t.Parallel()
	a, b := accessLog(config.Log{})
	long := strings.Repeat("é", 10_000)
	logCall(t.Context(), a, Record{Code: codes.NotFound, Method: long, RequestID: long, Err: errors.New(long), RequestBody: []byte(long)})
	got := lines(t, b)[0]
	for _, key := range []string{"method", "request_id", "error"} {
		s, _ := got[key].(string)
		if len(s) > maxLoggedText+len("…") || !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
			t.Errorf("%s is %d bytes: %q", key, len(s), s)
		}
	}
	if s, _ := got["request_body"].(string); !strings.HasSuffix(s, "… (15904 bytes more)") || len(s) > MaxLoggedBody*4/3+64 {
		t.Errorf("request_body ends in %q", s[len(s)-40:])
	}
}

func TestDroppedLineAllocatesNothing(t *testing.T) {
	a := NewAccessLog(NewLogger(config.Log{}, io.Discard), config.Log{})
	ok := Record{Method: "/shop.UserService/GetUser", ClientIP: netip.MustParseAddr("192.0.2.1")}
	failed := ok
	failed.Code = codes.Unauthenticated
	for range FailureLinesPerSecond {
		logCall(t.Context(), a, failed)
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { logCall(ctx, a, ok) }); n != 0 {
		t.Errorf("%v allocations per unsampled success", n)
	}
	if n := testing.AllocsPerRun(1000, func() { logCall(ctx, a, failed) }); n >= 1 {
		t.Errorf("%v allocations per suppressed failure", n)
	}
}

func BenchmarkAccessLog(b *testing.B) {
	r := Record{
		Protocol: "json", Verb: "GET", Method: "/v1/users/7", Route: "/v1/users/{id}", Backend: "shop", App: "acme", TokenID: "tok1",
		ClientIP: netip.MustParseAddr("192.0.2.1"), RequestID: "req",
	}
	for _, bc := range []struct {
		name   string
		sample float64
	}{{"dropped", 0}, {"sampled a tenth", .1}, {"written", 1}} {
		b.Run(bc.name, func(b *testing.B) {
			cfg := config.Log{SuccessSample: bc.sample}
			a := NewAccessLog(NewLogger(cfg, io.Discard), cfg)
			b.ReportAllocs()
			for b.Loop() {
				logCall(b.Context(), a, r)
			}
		})
	}
}

// logCall logs a call as the gateway does.
func logCall(ctx context.Context, a *AccessLog, r Record) {
	if r.Code != codes.OK || a.Sample(r.Duration, r.Streaming) {
		a.Log(ctx, r)
	}
}

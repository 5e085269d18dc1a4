package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func TestCallerTimeout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header http.Header
		want   time.Duration
		bad    bool
	}{
		{"none", http.Header{}, 0, false},
		{"seconds", http.Header{"Grpc-Timeout": {"100S"}}, 100 * time.Second, false},
		{"milliseconds", http.Header{"Grpc-Timeout": {"250m"}}, 250 * time.Millisecond, false},
		{"minutes", http.Header{"Grpc-Timeout": {"2M"}}, 2 * time.Minute, false},
		{"hours are clamped", http.Header{"Grpc-Timeout": {"99999999H"}}, wire.MaxTimeout, false},
		{"zero has passed", http.Header{"Grpc-Timeout": {"0S"}}, time.Nanosecond, false},
		{"no unit", http.Header{"Grpc-Timeout": {"100"}}, 0, true},
		{"unknown unit", http.Header{"Grpc-Timeout": {"1s"}}, 0, true},
		{"nine digits", http.Header{"Grpc-Timeout": {"123456789S"}}, 0, true},
		{"negative", http.Header{"Grpc-Timeout": {"-1S"}}, 0, true},
		{"empty", http.Header{"Grpc-Timeout": {""}}, 0, true},
		{"twice", http.Header{"Grpc-Timeout": {"1S", "2S"}}, 0, true},
		{"duration", http.Header{"X-Request-Timeout": {"1.5s"}}, 1500 * time.Millisecond, false},
		{"bare seconds", http.Header{"X-Request-Timeout": {"0.25"}}, 250 * time.Millisecond, false},
		{"absurd seconds", http.Header{"X-Request-Timeout": {"1e300"}}, wire.MaxTimeout, false},
		{"absurd hours", http.Header{"X-Request-Timeout": {"9999999999h"}}, wire.MaxTimeout, false},
		{"not a number", http.Header{"X-Request-Timeout": {"NaN"}}, 0, true},
		{"negative duration", http.Header{"X-Request-Timeout": {"-1s"}}, 0, true},
		{"words", http.Header{"X-Request-Timeout": {"soon"}}, 0, true},
		{"the shorter counts", http.Header{"Grpc-Timeout": {"5S"}, "X-Request-Timeout": {"1s"}}, time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := callerTimeout(tc.header)
			if (err != nil) != tc.bad || got != tc.want {
				t.Errorf("callerTimeout(%v) = %v, %v; want %v, bad %v", tc.header, got, err, tc.want, tc.bad)
			}
		})
	}
}

// Who gets a timeout's form wrong is told the form.
func TestBadTimeoutTellsTheForm(t *testing.T) {
	for header, want := range map[string]string{
		headerGRPCTimeout: "like 250m or 2S", headerRequestTimeout: "like 250ms or 2s", headerConnectTimeout: "a number of milliseconds",
	} {
		if err := badTimeout(header); !strings.Contains(err.Error(), header) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func FuzzTimeouts(f *testing.F) {
	for _, s := range []string{"1S", "99999999H", "0n", "1.5s", "-3", "1e9", "NaN", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) (time.Duration, bool){wire.ParseGRPCTimeout, parseRequestTimeout} {
			if d, ok := parse(s); ok && (d <= 0 || d > wire.MaxTimeout) {
				t.Errorf("%q gave %v", s, d)
			}
		}
	})
}

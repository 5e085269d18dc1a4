package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	headerGRPCTimeout    = "Grpc-Timeout"
	headerRequestTimeout = "X-Request-Timeout"

	// A longer timeout is taken for this one: it is beyond any route's limit,
	// and time.Time can still add it.
	maxTimeout = 24 * time.Hour
)

// callerTimeout reads how long an HTTP caller wants to wait: Grpc-Timeout in
// gRPC's form (digits and a unit, "250m"), or X-Request-Timeout as a duration
// ("250ms") or a number of seconds ("0.25"). The shorter counts; 0 means that
// it did not say.
func callerTimeout(h http.Header) (time.Duration, error) {
	var timeout time.Duration
	for _, way := range []struct {
		header string
		parse  func(string) (time.Duration, bool)
	}{
		{headerGRPCTimeout, parseGRPCTimeout}, {headerRequestTimeout, parseRequestTimeout},
	} {
		values := h[way.header]
		if len(values) == 0 {
			continue
		}
		d, ok := way.parse(values[0])
		if !ok || len(values) > 1 {
			return 0, badRequest("BAD_TIMEOUT", "header "+way.header+" is not a valid timeout")
		}
		if timeout == 0 || d < timeout {
			timeout = d
		}
	}
	return timeout, nil
}

// parseGRPCTimeout reads the Timeout of gRPC's HTTP/2 protocol: at most eight
// digits and one of the units H M S m u n.
func parseGRPCTimeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	var n int64
	for _, c := range []byte(s[:len(s)-1]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if n > int64(maxTimeout/unit) {
		return maxTimeout, true
	}
	// A timeout of zero has passed already; the shortest one says so without
	// being taken for none.
	return max(time.Duration(n)*unit, time.Nanosecond), true
}

func parseRequestTimeout(s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	if err != nil { // a number of seconds, or more hours than a Duration holds
		s, hours := strings.CutSuffix(s, "h")
		seconds, err := strconv.ParseFloat(s, 64)
		if err != nil || seconds != seconds {
			return 0, false
		}
		if hours {
			seconds *= 3600
		}
		if seconds > maxTimeout.Seconds() {
			return maxTimeout, true
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < 0 {
		return 0, false
	}
	return min(max(d, time.Nanosecond), maxTimeout), true
}

package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

const (
	headerGRPCTimeout    = "Grpc-Timeout"
	headerRequestTimeout = "X-Request-Timeout"
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
		{headerGRPCTimeout, wire.ParseGRPCTimeout}, {headerRequestTimeout, parseRequestTimeout},
	} {
		values := h[way.header]
		if len(values) == 0 {
			continue
		}
		d, ok := way.parse(values[0])
		if !ok || len(values) > 1 {
			return 0, badTimeout(way.header)
		}
		if timeout == 0 || d < timeout {
			timeout = d
		}
	}
	return timeout, nil
}

// badTimeout refuses what a header says of the time to wait, and tells how it is said.
func badTimeout(header string) error {
	form := "is a duration with its unit, like 250ms or 2s, or a number of seconds"
	switch header {
	case headerGRPCTimeout:
		form = "is up to 8 digits and one of the units H, M, S, m (milliseconds), u and n, like 250m or 2S"
	case headerConnectTimeout:
		form = "is a number of milliseconds, of up to 10 digits"
	}
	return badRequest("BAD_TIMEOUT", "header "+header+" is not a valid timeout, which "+form)
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
		if seconds > wire.MaxTimeout.Seconds() {
			return wire.MaxTimeout, true
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < 0 {
		return 0, false
	}
	return min(max(d, time.Nanosecond), wire.MaxTimeout), true
}

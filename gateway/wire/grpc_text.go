package wire

import (
	"strings"
	"time"
)

// MaxTimeout is what a longer timeout is taken for: it is beyond any route's
// limit, and time.Time can still add it.
const MaxTimeout = 24 * time.Hour

// ParseGRPCTimeout reads the value of Grpc-Timeout: at most eight digits and one
// of the units H M S m u n. It is never 0: a timeout of zero has passed already,
// and the shortest one says so without being taken for none.
func ParseGRPCTimeout(s string) (timeout time.Duration, ok bool) {
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
	n, ok := parseDigits(s[:len(s)-1])
	return timeoutOf(n, unit), ok
}

// ParseConnectTimeout reads the value of Connect-Timeout-Ms: at most ten digits.
// It is never 0, as [ParseGRPCTimeout].
func ParseConnectTimeout(s string) (timeout time.Duration, ok bool) {
	if s == "" || len(s) > 10 {
		return 0, false
	}
	n, ok := parseDigits(s)
	return timeoutOf(n, time.Millisecond), ok
}

// parseDigits is for few digits: it does not look for an overflow.
func parseDigits(s string) (n int64, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func timeoutOf(n int64, unit time.Duration) time.Duration {
	if n > int64(MaxTimeout/unit) {
		return MaxTimeout
	}
	return max(time.Duration(n)*unit, time.Nanosecond)
}

// EncodeMessage gives a status message as the value of Grpc-Message: what is
// not printable ASCII, and the percent sign, in percent-encoding.
func EncodeMessage(s string) string {
	const hex = "0123456789ABCDEF"
	i := 0
	for i < len(s) && isPlain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for ; i < len(s); i++ {
		if c := s[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func isPlain(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }

// AppendWebTrailer appends one line of the trailers that gRPC-Web has in the
// body: "key: value" and a line end. The key is in lower case; neither may hold
// a line end.
func AppendWebTrailer(dst []byte, key, value string) []byte {
	dst = append(dst, key...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, '\r', '\n')
}

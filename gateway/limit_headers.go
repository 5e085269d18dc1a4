package gateway

import (
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/limits"
)

// The header fields of draft-ietf-httpapi-ratelimit-headers-10: lists of strings
// with parameters, as RFC 9651 writes them.
const (
	keyRateLimit       = "ratelimit"
	keyRateLimitPolicy = "ratelimit-policy"
)

// policyText tells what limits there are: of each its name, how many calls (q) in
// how many seconds (w), and, where it is another number, how many may come at once.
// A month has no length that is always the same.
func policyText(all []callLimit) string {
	var b []byte
	for i := range all {
		key, spec := all[i].key, all[i].spec
		b = appendName(b, i, key)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, int64(spec.Calls), 10)
		window := spec.Per
		if key.Period == limits.Daily {
			window = 24 * time.Hour
		}
		if window > 0 {
			b = append(b, ";w="...)
			b = strconv.AppendInt(b, seconds(window), 10)
		}
		if spec.Burst != spec.Calls {
			b = append(b, ";rpcgate-burst="...)
			b = strconv.AppendInt(b, int64(spec.Burst), 10)
		}
	}
	return string(b)
}

// limitsMetadata tells how much is left (r), and in how many seconds there is more
// (t). refused is the limit that refused the call, which has nothing for a while;
// -1: none did.
func limitsMetadata(by *callLimits, now time.Duration, refused int, wait time.Duration) metadata.MD {
	return addLimits(make(metadata.MD, 2), by, now, refused, wait)
}

func addLimits(md metadata.MD, by *callLimits, now time.Duration, refused int, wait time.Duration) metadata.MD {
	var room [256]byte
	b := room[:0]
	for i := range by.each {
		limit := &by.each[i]
		view := limit.View(now)
		if i == refused {
			view = limits.View{Remaining: 0, Reset: wait}
		}
		b = appendName(b, i, limit.key)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, int64(view.Remaining), 10)
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, seconds(view.Reset), 10)
	}
	md[keyRateLimit] = []string{string(b)}
	md[keyRateLimitPolicy] = by.policies
	return md
}

func appendName(b []byte, i int, key limits.Key) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, key.Policy()...)
	return append(b, '"')
}

// seconds rounds up, as whoever comes back a little early comes in vain.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

package gateway

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/limits"
)

// refuse refuses a call for the limit at i.
func (l *limiter) refuse(c *Call, by *callLimits, i int, d limits.Decision, now time.Duration) error {
	limit := &by.each[i]
	limit.counted[d].Inc()
	if d == limits.Unknown {
		c.limited = limited{}
		return errLimitsUnavailable
	}
	wait := limit.RetryAfter(now)
	if l.cfg.Headers {
		c.peer.note(limitsMetadata(by, now, i, wait))
		c.limited = limited{}
	}
	return rateLimited(limit.key, limit.spec, wait)
}

// errLimitsUnavailable is for limits.store_down: closed.
var errLimitsUnavailable = fixed(callError{
	Code: codes.Unavailable, Reason: "LIMITS_UNAVAILABLE", RetryAfter: time.Second,
	Message: "how much of its limits the app has used cannot be told at the moment",
})

// rateLimited is for a call that is one too many. The caller is told which limit it
// is and how much that allows.
func rateLimited(key limits.Key, spec limits.Spec, wait time.Duration) *callError {
	whose := [...]string{limits.OfApp: "the app", limits.OfToken: "the token", limits.OfRoute: "the app"}[key.Whose]
	of := ""
	if key.Whose == limits.OfRoute {
		of = " of this method"
		if key.App == "" {
			whose = "callers together"
		}
	}
	per := spec.Per.String()
	switch key.Period {
	case limits.Daily:
		per = "day"
	case limits.Monthly:
		per = "month"
	case limits.Rate:
	}
	return &callError{
		Code: codes.ResourceExhausted, Reason: "RATE_LIMITED", RetryAfter: wait,
		Message: fmt.Sprintf("%s may make %d calls%s per %s", whose, spec.Calls, of, per),
		info:    map[string]string{"limit": key.Policy(), "calls": strconv.Itoa(spec.Calls), "per": per},
	}
}

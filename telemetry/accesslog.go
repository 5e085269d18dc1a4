package telemetry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"google.golang.org/grpc/codes"
)

// FailureLinesPerSecond is how many lines of failed or slow calls are written in
// a second for each code. A flood of refused callers, or a dead backend, fails
// every call; it must neither fill the disk nor slow the calls that still go
// through. The next line of that code says how many were held back
// ("suppressed"); rpcgate_calls_total counts them all.
const FailureLinesPerSecond = 100

// Record is one call, as the access log tells it. It holds no secret: the app
// and the token's id are public.
type Record struct {
	Protocol string // how the call came in: "json" or "grpc"
	Verb     string // the HTTP method of a JSON caller: "GET"; "" for gRPC
	Method   string // the path that the caller asked for: "/v1/users/7", "/shop.UserService/GetUser"
	Route    string // the route's label, or "" for a call that met none
	Backend  string
	App      string // "" when not authenticated
	TokenID  string
	// ClaimedApp and ClaimedTokenID are what a credential that was refused says
	// that it is. Nobody vouches for them.
	ClaimedApp, ClaimedTokenID string

	Code       codes.Code
	HTTPStatus int    // that a JSON caller was sent; 0 for gRPC
	Reason     string // the gateway's own reason ("TOKEN_INVALID"), or "" when the answer is the backend's
	Err        error  // why it failed, for operators; may be nil
	Duration   time.Duration
	// How the backend was called: how often, and which endpoint's answer counted; 0
	// and "" where it was not.
	Attempts int
	Endpoint string
	Fallback string // what answered in the backend's place; "" where the backend did
	// BusinessFailure says that the response was no success, whatever the code.
	BusinessFailure bool
	// Streaming says that either side streams: such a call lasts as long as its
	// sides want, and is never slow.
	Streaming bool
	BytesIn   int64 // of the request's messages or body
	BytesOut  int64 // of the response's
	ClientIP  netip.Addr
	// RequestID ties the line to the caller's own and the backend's.
	RequestID string
	// Only for routes that ask for them. Cut off after [MaxLoggedBody] bytes.
	// They are protobuf's bytes, also of calls in JSON; the line has them in base64.
	RequestBody, ResponseBody []byte
}

// AccessLog writes a line for calls that ended: a sample of those that went
// well, and each that failed or was slow, up to [FailureLinesPerSecond].
type AccessLog struct {
	log    *slog.Logger
	sample float64
	slow   time.Duration
	gates  [codeCount]floodgate // OK's is for slow calls that went well
}

// NewAccessLog returns an access log that writes to l. Successes and failures
// that are the caller's are written at level info; failures of the gateway or
// the backend, and slow calls, as warnings.
func NewAccessLog(l *slog.Logger, cfg config.Log) *AccessLog {
	a := &AccessLog{log: l, sample: cfg.SuccessSample, slow: cfg.SlowThreshold}
	for i := range a.gates {
		a.gates[i].limit = FailureLinesPerSecond
	}
	return a
}

// Sample says whether a call that went well is to be logged: a slow one always,
// of the others their share. It is asked once for each, before its Record is put
// together: most are left out.
func (a *AccessLog) Sample(took time.Duration, streaming bool) bool {
	return a.isSlow(took, streaming) || sampled(a.sample)
}

func (a *AccessLog) isSlow(took time.Duration, streaming bool) bool {
	return a.slow > 0 && !streaming && took >= a.slow
}

// Log writes r's line, unless there are too many of its code; then it allocates
// nothing. Calls that went well come here only if [AccessLog.Sample] says so.
func (a *AccessLog) Log(ctx context.Context, r Record) {
	slow := a.isSlow(r.Duration, r.Streaming)
	level := slog.LevelInfo
	if slow || serverFault(r.Code, r.Reason) {
		level = slog.LevelWarn
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	var suppressed int64
	if r.Code != codes.OK || slow {
		var ok bool
		if suppressed, ok = a.gates[codeIndex(r.Code)].allow(); !ok {
			return
		}
	}
	write(ctx, a.log, level, r, suppressed)
}

// Flush writes how many lines were held back and not told of yet, one line a
// code. It is for the end of the process, when no next line will tell.
func (a *AccessLog) Flush(ctx context.Context) {
	for i := range a.gates {
		if n := a.gates[i].take(); n > 0 {
			a.log.LogAttrs(ctx, slog.LevelWarn, "calls not logged",
				slog.String("code", codeName(i)), slog.Int64("suppressed", n))
		}
	}
}

// sampled reports whether one of a share of things is taken.
func sampled(share float64) bool {
	switch {
	case share <= 0:
		return false
	case share >= 1:
		return true
	default:
		return rand.Float64() < share //nolint:gosec // a sample, not a secret
	}
}

// serverFault reports whether a code blames the gateway or the backend rather
// than the caller. The gateway's own reason says more than its code does, where
// there is one.
func serverFault(code codes.Code, reason string) bool {
	switch reason {
	case "RATE_LIMITED", "TOO_MANY_FAILURES", "CONCURRENCY_LIMITED", "STREAMS_LIMITED", "STREAM_LIFETIME",
		"NO_ROUTE", "METHOD_NOT_ALLOWED", "BODY_TOO_LARGE", "MESSAGE_TOO_LARGE", "CONTENT_ENCODING_UNSUPPORTED",
		"BAD_BODY", "BAD_MESSAGE", "BAD_METADATA", "BAD_PATH", "BAD_REQUEST", "BAD_TIMEOUT":
		return false // but BAD_RESPONSE is the backend's
	}
	switch code {
	case codes.OK, codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists,
		codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange:
		return false
	default:
		return true
	}
}

package gateway

import (
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
	"github.com/rpcgate/rpcgate/usage"
)

// Usage counts what apps use. Count must not block.
type Usage interface {
	Count(app, route string, blame usage.Blame, in, out int64)
}

// accounts are what the calls of one route are accounted in, each to its app.
type accounts struct {
	usage Usage           // nil: nothing is kept
	apps  *telemetry.Apps // nil: nothing is shown
	route string
}

func (g *Gateway) accounts(r *routes.Route) *accounts {
	return &accounts{usage: g.usage, apps: g.apps, route: r.String()}
}

// count accounts a call that is over. One that nobody was authenticated for is
// nobody's: whom its caller claimed to be does not matter.
func (a *accounts) count(c *Call, failure *callError) {
	if a == nil || c.Principal == nil {
		return
	}
	blame := blameOf(failure)
	if a.apps != nil {
		a.apps.Count(c.Principal.App, appOutcomeOf(blame), appLimitOf(failure))
	}
	if a.usage != nil {
		a.usage.Count(c.Principal.App, a.route, blame, c.traffic.in.Load(), c.traffic.out.Load())
	}
}

// blameOf says through whom a call failed. What the backend answered is the
// caller's fault where its code says so; what the gateway says is its own where it
// refused what it could have forwarded.
func blameOf(failure *callError) usage.Blame {
	switch {
	case failure == nil:
		return usage.Nobody
	case failure == errDeadlinePassed:
		return usage.Caller
	case failure.backend == nil:
		switch failure.Reason {
		case "BREAKER_OPEN", "BACKEND_UNREACHABLE", "BACKEND_BUSY", "BACKEND_CALL_FAILED", "BAD_RESPONSE", "FAN_OUT_FAILED", "DEADLINE_EXCEEDED":
			return usage.Backend
		case "BODY_TOO_LARGE", "BODY_TIMEOUT", "MESSAGE_TOO_LARGE", "METADATA_TOO_LARGE", "BAD_MESSAGE", "BAD_METADATA":
			return usage.Caller
		}
	}
	switch failure.Code {
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.Unauthenticated, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange:
		return usage.Caller
	case codes.Unimplemented:
		if failure.backend == nil {
			return usage.Caller
		}
	}
	if failure.backend != nil {
		return usage.Backend
	}
	return usage.Gateway
}

func appOutcomeOf(blame usage.Blame) telemetry.AppOutcome {
	switch blame {
	case usage.Caller:
		return telemetry.AppCaller
	case usage.Gateway:
		return telemetry.AppGateway
	case usage.Backend:
		return telemetry.AppBackend
	}
	return telemetry.AppSuccess
}

// appLimitOf names the limit that a call was refused by.
func appLimitOf(failure *callError) telemetry.AppLimit {
	if failure == nil || failure.backend != nil {
		return telemetry.AppUnlimited
	}
	switch failure.Reason {
	case "RATE_LIMITED", "LIMITS_UNAVAILABLE":
		return telemetry.AppRate
	case errConcurrencyLimited[ofApp].Reason:
		return telemetry.AppConcurrency
	case errStreamsLimited[ofApp].Reason:
		return telemetry.AppStreams
	case errStreamLifetime.Reason:
		return telemetry.AppStreamLifetime
	case errBodyTooLarge.Reason:
		return telemetry.AppBody
	case errOverloaded.Reason:
		return telemetry.AppOverload
	}
	return telemetry.AppUnlimited
}

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

// step is one stage of the pipeline: a small function around the next. Steps
// are put together per route when a snapshot is built; a route that does not
// need one does not have it.
type step func(next Handler) Handler

func chain(last Handler, steps ...step) Handler {
	h := last
	for i := len(steps) - 1; i >= 0; i-- {
		h = steps[i](h)
	}
	return h
}

// pipeline builds what every call of one route runs through, whichever its
// protocol, outermost first:
//
//	(trace) → recover → observe → enter → authenticate → admit → authorize → limit → bound → deadline → dispatch
//
// The stages in parentheses have their place but no step yet.
func (g *Gateway) pipeline(r *routes.Route, dispatch Handler) Handler {
	steps := []step{recoverPanics(g.log), g.observe(newObservers(g.calls, r).with(g.accounts(r)))}
	priority := limits.PriorityNamed(r.Priority)
	if g.shedder != nil {
		steps = append(steps, g.shedder.enter(priority))
	}
	if r.AuthNone {
		steps = append(steps, skipAuth(g.authOutcomes))
	} else {
		steps = append(steps, authenticate(g.verification(), g.authOutcomes))
	}
	if g.shedder != nil {
		steps = append(steps, g.shedder.admit())
	}
	if !r.AuthNone {
		steps = append(steps, authorize(r))
	}
	if g.limiter != nil {
		if limit := g.limiter.limit(r); limit != nil {
			steps = append(steps, limit)
		}
	}
	if g.bounds != nil {
		steps = append(steps, g.bounds.bound(r))
	}
	steps = append(steps, checkRequest, tellHow(parseCallInfo(g.cfg.CallInfo), g.calls.BindOutcomes(r.Backend, r.Label)))
	return chain(dispatch, steps...)
}

// unrouted serves calls that no route matched: they are logged and counted
// like others, and fail with err.
func (g *Gateway) unrouted(err error) Handler {
	return chain(func(context.Context, *Call) error { return err }, recoverPanics(g.log), g.observe(g.unroutedCalls))
}

// recoverPanics makes a panic one failed call. The stack goes to the log, the
// caller learns only that the gateway failed.
func recoverPanics(log *slog.Logger) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (err error) {
			defer func() {
				if err == nil {
					return
				}
				if logPanic(ctx, log, c, err) {
					err = describe(err)
				}
			}()
			defer recoverTo(&err)
			return next(ctx, c)
		}
	}
}

// logPanic logs an error that is a panic's, and tells whether it is one.
func logPanic(ctx context.Context, log *slog.Logger, c *Call, err error) bool {
	p, ok := errors.AsType[*panicError](err)
	if ok {
		log.LogAttrs(ctx, slog.LevelError, "panic while serving a call",
			slog.Any("panic", p.value), slog.String("stack", string(p.stack)),
			slog.String("request_id", c.RequestID), slog.String("protocol", c.Protocol.String()))
	}
	return ok
}

// observe counts, times and logs the call, and turns its error into the
// callError that the front end answers with.
func (g *Gateway) observe(route *observers) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) (err error) {
			o := route.of(c.Protocol)
			o.Start()
			var failure *callError
			returned := false
			defer func() {
				if !returned { // next panicked
					failure = &callError{Code: codes.Internal, Reason: "INTERNAL"}
				}
				code := codes.OK
				if failure != nil {
					code = failure.Code
				}
				took := time.Since(c.Start)
				o.Done(code, took)
				route.accounts.count(c, failure)
				if failure != nil || g.accessLog.Sample(took, c.streams()) {
					g.logCall(ctx, c, failure, code, took)
				}
			}()
			err = next(ctx, c)
			failure, returned = describe(err), true
			if failure == nil {
				return nil
			}
			if !g.cfg.ErrorInfo {
				return failure.withoutDetails()
			}
			return failure
		}
	}
}

// streams says whether either side of the call's method streams.
func (c *Call) streams() bool {
	return c.Route != nil && (c.Route.ClientStreams || c.Route.ServerStreams)
}

func (g *Gateway) logCall(ctx context.Context, c *Call, failure *callError, code codes.Code, took time.Duration) {
	rec := telemetry.Record{
		Protocol: c.Protocol.String(), RequestID: c.RequestID,
		Code: code, Duration: took, BytesIn: c.traffic.in.Load(), BytesOut: c.traffic.out.Load(),
	}
	rec.Verb, rec.Method = c.peer.asked()
	if rec.Verb != "" {
		rec.HTTPStatus = http.StatusOK
		if c.Protocol == protocolWebSocket {
			rec.HTTPStatus = http.StatusSwitchingProtocols
		}
		if failure != nil {
			rec.HTTPStatus = failure.HTTPStatus()
		}
	}
	rec.Attempts, rec.Endpoint = c.out.served.Attempts, c.out.served.Endpoint
	rec.Fallback, rec.BusinessFailure = c.out.fallback.String(), c.out.served.Failed
	if c.Route != nil {
		if c.Route.LogBodies {
			rec.RequestBody, rec.ResponseBody = c.traffic.bodies()
		}
		rec.Route, rec.Backend = c.Route.Label, c.Route.Backend
		rec.Streaming = c.streams()
	}
	rec.ClientIP, _ = netip.ParseAddr(c.ClientIP) // a Unix socket's peer has none
	if c.Principal != nil {
		rec.App, rec.TokenID = c.Principal.App, c.Principal.TokenID
	} else if failure != nil && (failure.Code == codes.Unauthenticated || failure.Code == codes.PermissionDenied || isTooManyFailures(failure)) {
		rec.ClaimedApp = c.Credential.App
		rec.ClaimedTokenID = auth.TokenID(c.Credential.Token)
	}
	if failure != nil {
		rec.Reason, rec.Err = failure.Reason, failure.cause
	}
	g.accessLog.Log(ctx, rec)
}

// Verifier says whose credential it is. Its errors are auth's.
type Verifier interface {
	Verify(ctx context.Context, c auth.Credential) (*auth.Principal, error)
}

// authenticate lets only verified credentials through.
func authenticate(verify func(context.Context, *Call) (*auth.Principal, error), outcomes *telemetry.Auth) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			err := c.Refusal
			if err == nil {
				c.Principal, err = verify(ctx, c)
			}
			if err == nil && !c.Principal.AllowsFrom(c.ClientIP) {
				err = errSource
			}
			outcomes.Count(authOutcome(err))
			if err != nil {
				return err
			}
			return next(ctx, c)
		}
	}
}

// skipAuth stands in for authenticate on routes that need no credential.
func skipAuth(outcomes *telemetry.Auth) step {
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			outcomes.Count(telemetry.AuthSkipped)
			return next(ctx, c)
		}
	}
}

// authOutcome names the result of a verification for metrics.
func authOutcome(err error) telemetry.AuthOutcome {
	switch {
	case err == nil:
		return telemetry.AuthAccepted
	case isTooManyFailures(err):
		return telemetry.AuthThrottled
	case errors.Is(err, auth.ErrMissing):
		return telemetry.AuthMissing
	case errors.Is(err, auth.ErrMalformed):
		return telemetry.AuthMalformed
	case errors.Is(err, auth.ErrExpired):
		return telemetry.AuthExpired
	case errors.Is(err, auth.ErrRevoked):
		return telemetry.AuthRevoked
	case errors.Is(err, auth.ErrSuspended):
		return telemetry.AuthSuspended
	case errors.Is(err, errSource):
		return telemetry.AuthSource
	case errors.Is(err, auth.ErrInvalid):
		return telemetry.AuthInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return telemetry.AuthAbandoned
	}
	return telemetry.AuthUnavailable
}

// checkRequest refuses what the front end found malformed, and answers for the
// backend when the caller's deadline has passed already. How much of the rest
// the backend gets is rpcproxy's to say.
func checkRequest(next Handler) Handler {
	return func(ctx context.Context, c *Call) error {
		if c.Malformed != nil {
			return c.Malformed
		}
		if !c.Deadline.IsZero() && !time.Now().Before(c.Deadline) {
			return errDeadlinePassed
		}
		return next(ctx, c)
	}
}

package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// fallbackKind is what answered in a backend's place. Its names are values of
// the header and of the metric's label.
type fallbackKind uint8

const (
	noFallback fallbackKind = iota
	fallbackStatic
	fallbackBackend
	fallbackLastGood
)

func (k fallbackKind) String() string {
	switch k {
	case fallbackStatic:
		return "static"
	case fallbackBackend:
		return "backend"
	case fallbackLastGood:
		return "last-good"
	default:
		return ""
	}
}

// fallback is the last stage of a route whose calls are answered in another way
// where its backend cannot. Nothing of the backend's answer is passed on before
// it is known to be one.
type fallback struct {
	main  *outbound
	rule  *routes.Fallback
	spare *outbound // for rule.Backend
	good  *lastGood // for rule.LastGood
}

func (f *fallback) handle(ctx context.Context, c *Call) error {
	ex := &heldExchange{call: c, keeps: f.good != nil}
	defer ex.free()
	err := f.main.backend.Forward(ctx, f.main.fill(c), ex)
	switch {
	case err == nil:
		if f.good != nil && !c.out.served.Failed {
			f.good.keep(c, ex.request, ex.answer)
		}
		return nil
	case ex.begun || !f.standsIn(ctx, err):
		return ex.pass(err)
	}
	kind, err := f.answer(ctx, c, ex, err)
	if kind == noFallback {
		return ex.pass(err)
	}
	return err
}

// answer answers in the backend's place, which ended with err. It gives err
// back, and no kind, where there is nothing to answer with.
func (f *fallback) answer(ctx context.Context, c *Call, ex *heldExchange, err error) (fallbackKind, error) {
	out := &c.out
	switch {
	case f.rule.Response != nil:
		out.fallback = fallbackStatic
		return out.fallback, ex.give(mem.BufferSlice{mem.SliceBuffer(f.rule.Response)})
	case f.good != nil:
		if !ex.received { // the backend was too busy for the request to be taken
			return noFallback, err
		}
		if err := ex.take(); err != nil {
			return noFallback, err
		}
		msg, age, ok := f.good.recall(c, ex.request)
		if !ok {
			return noFallback, err
		}
		out.fallback, out.age = fallbackLastGood, age
		return out.fallback, ex.give(mem.BufferSlice{mem.SliceBuffer(msg)})
	case f.spare != nil:
		return f.ask(ctx, c, ex, err)
	}
	return noFallback, err
}

// ask has the other backend answer.
func (f *fallback) ask(ctx context.Context, c *Call, ex *heldExchange, err error) (fallbackKind, error) {
	out := &c.out
	var served rpcproxy.Served
	second := &heldExchange{call: c, request: ex.request, received: ex.received, served: &served, before: out.served.Attempts}
	r := f.spare.fill(c)
	r.Served = &served
	out.fallback = fallbackBackend // for the header, which goes out with the answer
	spareErr := f.spare.backend.Forward(ctx, r, second)
	ex.received, ex.request = second.received, second.request // ex frees it, whoever took it
	if spareErr == nil || second.begun {
		return out.fallback, spareErr
	}
	out.fallback = noFallback
	out.served.Attempts += served.Attempts
	return noFallback, err
}

// standsIn tells whether the call is answered in another way after err: where
// the backend is to blame or the way to it, there is somebody to answer, and
// nothing can be done twice by it.
func (f *fallback) standsIn(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !f.rule.For(describe(err).Code) {
		return false
	}
	sent, backends := whose(err)
	if !backends {
		return false
	}
	// An Idempotency-Key is for the backend that may have served the call: another
	// one does not know it.
	return f.spare == nil || !sent || f.main.route.Idempotent
}

// whose tells of a failure whether the call may have reached the backend's
// application, and whether the backend, or the way to it, is to blame, and not
// the caller.
func whose(err error) (sent, backends bool) {
	var (
		answered    *rpcproxy.StatusError
		unreachable *rpcproxy.UnreachableError
		timeout     *rpcproxy.TimeoutError
		open        *rpcproxy.BreakerOpenError
		busy        *rpcproxy.BusyError
		exchange    *rpcproxy.ExchangeError
		local       *rpcproxy.LocalError
	)
	switch {
	case errors.As(err, &exchange):
		return true, false
	case errors.As(err, &answered):
		return true, !answered.AboutRequest()
	case errors.As(err, &unreachable):
		return unreachable.Sent, true
	case errors.As(err, &timeout):
		return !timeout.Unsent && !timeout.Connecting, true
	case errors.As(err, &open), errors.As(err, &busy):
		return false, true
	case errors.As(err, &local):
		switch f := describeLocal(local); f.Reason {
		case "POOL_FULL":
			return false, true
		case "BACKEND_CALL_FAILED": // an answer that is none
			return true, true
		default: // too large, revoked, or the gateway stops
			return true, false
		}
	}
	return true, false
}

package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// maxFannedOut is how many bytes the answers of all endpoints to one call may
// have together. Answers beyond it are left out.
const maxFannedOut = 16 << 20

// addressLister lists a backend's endpoints; *rpcproxy.Backend is one.
type addressLister interface {
	Addresses(ctx context.Context) ([]string, error)
}

// fanOut is the last stage of a route whose calls go to all endpoints of its
// backend.
type fanOut struct {
	*outbound
	endpoints addressLister
	cfg       config.FanOut
	log       *slog.Logger
}

// endpointResult is what became of a call at one endpoint.
type endpointResult struct {
	endpoint string
	answer   []byte     // of a success
	failure  *callError // nil: a success
}

func (f *fanOut) handle(ctx context.Context, c *Call) error {
	request, err := c.RecvMsg()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errNoMessage
		}
		return &rpcproxy.ExchangeError{Err: err}
	}
	defer request.Free()
	list, err := f.list(ctx)
	if err != nil {
		return err
	}
	results := f.callAll(ctx, c, request, list)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.answer(ctx, c, results)
}

// list gives the endpoints. It is not waited for longer than discoveryWait where
// calls may take as long as they like: what has no endpoints fails.
func (f *fanOut) list(ctx context.Context) ([]string, error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(f.timeout, discoveryWait))
	defer cancel()
	list, err := f.endpoints.Addresses(limited)
	switch {
	case len(list) == 0 && ctx.Err() == nil:
		return nil, &callError{
			Code: codes.Unavailable, Reason: "BACKEND_UNREACHABLE", RetryAfter: time.Second, cause: err,
			Message: fmt.Sprintf("backend %q has no endpoints that are known", f.route.Backend),
		}
	case len(list) == 0:
		return nil, ctx.Err()
	case len(list) > f.cfg.MaxEndpoints:
		return nil, &callError{
			Code: codes.FailedPrecondition, Reason: "FAN_OUT_TOO_WIDE",
			Message: fmt.Sprintf("backend %q has %d endpoints, and a call goes to %d of them at most", f.route.Backend, len(list), f.cfg.MaxEndpoints),
		}
	}
	return list, nil
}

// callAll calls every endpoint, some at once, and gives their results in the
// order of the list. The route's limit is that of all together.
func (f *fanOut) callAll(ctx context.Context, c *Call, request mem.BufferSlice, list []string) []endpointResult {
	results := make([]endpointResult, len(list))
	var next, size atomic.Int64
	var until time.Time
	if f.timeout > 0 {
		until = time.Now().Add(f.timeout)
	}
	template := *f.fill(c)
	template.Idempotent, template.NoSideEffects, template.Served = false, false, nil
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				return
			}
			results[i] = f.callOne(ctx, template, request, list[i], until, &size)
		}
	}
	var workers sync.WaitGroup
	for range min(f.cfg.Concurrency, len(list)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	c.out.served.Attempts = len(list)
	return results
}

func (f *fanOut) callOne(ctx context.Context, r rpcproxy.Request, request mem.BufferSlice, endpoint string, until time.Time, size *atomic.Int64) (result endpointResult) {
	result.endpoint = endpoint
	var err error
	defer func() { result.failure = keptFailure(describe(err)) }()
	defer recoverTo(&err) // this may be a goroutine of its own
	if !until.IsZero() {
		if r.Timeout = time.Until(until); r.Timeout <= 0 {
			err = &callError{Code: codes.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED", Message: "the time was up before the endpoint's turn came"}
			return result
		}
	}
	r.Endpoint = endpoint
	ex := &collector{request: request, size: size}
	if err = f.backend.Forward(ctx, &r, ex); err == nil {
		result.answer = ex.answer
	}
	return result
}

// maxFailureText bounds what is kept of an endpoint's own message, in bytes: each
// may send megabytes of it.
const maxFailureText = 1 << 10

// keptFailure is what is kept of a failure until all endpoints have answered: of
// the status that an endpoint sent its code and the beginning of its message.
func keptFailure(f *callError) *callError {
	if f == nil || f.backend == nil {
		return f
	}
	text := f.Message
	if len(text) > maxFailureText {
		text = strings.ToValidUTF8(text[:maxFailureText], "") + "…"
	}
	return &callError{Code: f.Code, Reason: f.Reason, Message: text, RetryAfter: f.RetryAfter}
}

// holds tells whether so many failures leave the call a success.
func (f *fanOut) holds(failures, endpoints int) bool {
	switch f.cfg.Require {
	case "none":
		return true
	case "any":
		return failures < endpoints
	default:
		return failures == 0
	}
}

// answer tells the caller of all results.
func (f *fanOut) answer(ctx context.Context, c *Call, results []endpointResult) error {
	failed := 0
	for i := range results {
		if results[i].failure != nil {
			failed++
		}
	}
	var failure *callError
	if !f.holds(failed, len(results)) {
		failure = fanOutFailure(results, failed)
	}
	for i := range results {
		if r := results[i].failure; r != nil && failure == nil {
			logPanic(ctx, f.log, c, r) // of a call that fails, recoverPanics logs it
		}
	}
	for i := range results {
		c.traffic.out.Add(int64(len(results[i].answer)))
		if c.Route.LogBodies {
			c.traffic.keep(&c.traffic.response, mem.BufferSlice{mem.SliceBuffer(results[i].answer)})
		}
	}
	if all, ok := c.peer.(allAnswerer); ok {
		all.sendAll(results, failure)
		if failure == nil {
			return sendHeaderOf(c)
		}
		return failure
	}
	c.peer.setTrailer(metadata.MD{keyResults: resultTexts(results)})
	if failure != nil {
		return failure
	}
	if err := sendHeaderOf(c); err != nil {
		return err
	}
	// With require none there may be no answer, and the empty message stands for it.
	msg := mem.BufferSlice{mem.SliceBuffer(nil)}
	if i := slices.IndexFunc(results, func(r endpointResult) bool { return r.failure == nil }); i >= 0 {
		msg[0] = mem.SliceBuffer(results[i].answer)
	}
	if err := c.peer.sendMsg(msg); err != nil { // it is counted with the others
		return &rpcproxy.ExchangeError{Err: err}
	}
	return nil
}

func sendHeaderOf(c *Call) error {
	if err := c.SendHeader(nil); err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	return nil
}

// fanOutFailed is the reason of calls that did not succeed at enough endpoints.
const fanOutFailed = "FAN_OUT_FAILED"

// fanOutFailure is the failure of the call as a whole. Its code is the failed
// endpoints' own where they all have the same one.
func fanOutFailure(results []endpointResult, failed int) *callError {
	f := &callError{Code: codes.OK, Reason: fanOutFailed}
	first := ""
	for i := range results {
		switch r := &results[i]; {
		case r.failure == nil:
		case f.Code == codes.OK:
			f.Code, f.RetryAfter, f.cause = r.failure.Code, r.failure.RetryAfter, r.failure
			first = r.endpoint + ": " + r.failure.Code.String()
		case f.Code != r.failure.Code:
			f.Code = codes.Unavailable
		}
		if r := results[i].failure; r != nil && isPanic(r) {
			f.cause = r // for the log, whichever it was
		}
	}
	f.Message = fmt.Sprintf("the call failed at %d of %d endpoints, first at %s", failed, len(results), first)
	return f
}

func isPanic(err error) bool {
	_, ok := errors.AsType[*panicError](err)
	return ok
}

// maxResultTexts bounds what trailers tell of a call's endpoints, in bytes:
// servers and proxies between refuse more than some KiB of them.
const maxResultTexts = 4 << 10

// resultTexts tells of each endpoint with which code the call ended there, and
// how many more there are.
func resultTexts(results []endpointResult) []string {
	var texts []string
	size := 0
	for i := range results {
		text := results[i].endpoint + " " + results[i].code()
		if size += len(text); size > maxResultTexts {
			return append(texts, fmt.Sprintf("and %d more", len(results)-i))
		}
		texts = append(texts, text)
	}
	return texts
}

// code is the name of the code that the call ended with.
func (r *endpointResult) code() string {
	if r.failure == nil {
		return codeName(codes.OK)
	}
	return codeName(r.failure.Code)
}

// collector is the exchange of a call to one of several endpoints. It keeps the
// answer.
type collector struct {
	request mem.BufferSlice // the call's; shared
	size    *atomic.Int64   // of all endpoints' answers
	answer  []byte
}

var _ rpcproxy.Exchange = (*collector)(nil)

// RecvMsg gives the one request.
func (x *collector) RecvMsg() (mem.BufferSlice, error) {
	x.request.Ref()
	return slices.Clone(x.request), nil
}

// SendHeader leaves the header out: many would have to become one.
func (x *collector) SendHeader(metadata.MD) error { return nil }

// errFannedOut is for answers that there is no room for.
var errFannedOut = &callError{
	Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
	Message: "the endpoint's answer was left out: all endpoints' together are too large",
}

// SendMsg keeps the answer.
func (x *collector) SendMsg(msg mem.BufferSlice) error {
	defer msg.Free()
	if x.size.Add(int64(msg.Len())) > maxFannedOut {
		return errFannedOut
	}
	x.answer = msg.Materialize()
	return nil
}

// SetTrailer leaves the trailer out.
func (x *collector) SetTrailer(metadata.MD) {}

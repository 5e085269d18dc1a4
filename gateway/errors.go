package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
	"github.com/rpcgate/rpcgate/transcode"
)

// errorDomain marks the errors that the gateway itself made.
const errorDomain = "rpcgate"

// callError is a failed call as its caller is told of it: the one form that all
// protocols answer from.
type callError struct {
	Code       codes.Code
	Reason     string        // ErrorInfo.reason; empty when the backend sent the status
	Message    string        // safe to show to the caller
	RetryAfter time.Duration // when trying again may help; 0: not known to

	httpStatus int               // 0: as Code maps
	allow      []string          // the methods of a 405
	field      string            // the field that was bad, for INVALID_ARGUMENT
	info       map[string]string // ErrorInfo.metadata
	bare       bool              // without details
	backend    *status.Status    // the backend's own status, untouched
	cause      error             // for the log only
	fixed      *fixedAnswer      // of what is the same for all calls; nil: it is not
}

func (f *callError) Error() string {
	if f.cause != nil {
		return f.cause.Error()
	}
	return f.Message
}

func (f *callError) Unwrap() error { return f.cause }

// Status returns the failure as a gRPC status: the backend's own one
// untouched, or one with a google.rpc.ErrorInfo that names the reason, unless
// the config wants none.
func (f *callError) Status() *status.Status {
	if f.backend != nil {
		return f.backend
	}
	if f.fixed != nil {
		return f.fixed.status
	}
	s := status.New(f.Code, f.Message)
	if f.bare {
		return s
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: f.Reason, Domain: errorDomain, Metadata: f.info}}
	if f.field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: f.field, Description: f.Message},
		}})
	}
	if f.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter)})
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// withoutDetails returns the failure as callers are told of it where the config
// has no error_info. The log has its reason all the same.
func (f *callError) withoutDetails() *callError {
	if f.backend != nil || f.bare {
		return f
	}
	if f.fixed != nil {
		return f.fixed.bare
	}
	bare := *f
	bare.bare = true
	return &bare
}

// HTTPStatus returns the HTTP status code of the failure, by grpc-gateway's
// mapping where nothing more exact is known.
func (f *callError) HTTPStatus() int {
	if f.httpStatus != 0 {
		return f.httpStatus
	}
	return runtime.HTTPStatusFromCode(f.Code)
}

// writeHints adds the headers that go with the failure.
func (f *callError) writeHints(h http.Header) {
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	if len(f.allow) > 0 {
		setAllow(h, f.allow)
	}
	if f.Reason == errContentEncoding.Reason {
		h.Set("Accept-Encoding", "gzip, zstd") // RFC 9110, 12.5.3
	}
	if f.HTTPStatus() == http.StatusUnauthorized && f.backend == nil {
		h.Set("Www-Authenticate", `Bearer realm="rpcgate"`)
	}
}

// Errors that the front ends make themselves.
var (
	errBodyTooLarge = &callError{
		Code: codes.ResourceExhausted, Reason: "BODY_TOO_LARGE", httpStatus: http.StatusRequestEntityTooLarge,
		Message: "the request body is larger than this gateway accepts",
	}
	errBodyTimeout = &callError{
		Code: codes.DeadlineExceeded, Reason: "BODY_TIMEOUT", httpStatus: http.StatusRequestTimeout,
		Message: "the request body did not arrive in time",
	}
	errContentEncoding = &callError{
		Code: codes.InvalidArgument, Reason: "CONTENT_ENCODING_UNSUPPORTED", httpStatus: http.StatusUnsupportedMediaType,
		Message: "the request body's Content-Encoding is not known; send it as gzip or zstd, or not compressed",
	}
	errNotJSON = &callError{
		Code: codes.InvalidArgument, Reason: "CONTENT_TYPE_UNSUPPORTED", httpStatus: http.StatusUnsupportedMediaType,
		Message: "the route takes no form bodies; send JSON with Content-Type: application/json",
	}
	errMultipart = &callError{
		Code: codes.InvalidArgument, Reason: "CONTENT_TYPE_UNSUPPORTED", httpStatus: http.StatusUnsupportedMediaType,
		Message: "multipart bodies are not taken; send JSON with Content-Type: application/json",
	}
	errUploadedTooLarge = &callError{
		Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", httpStatus: http.StatusRequestEntityTooLarge,
		Message: "a message of the request body is larger than this gateway accepts",
	}
	// A wrong number of messages is UNIMPLEMENTED to gRPC (its statuscodes.md,
	// "cardinality violation"): the caller takes the method for another kind.
	errNoMessage = &callError{
		Code: codes.Unimplemented, Reason: "BAD_MESSAGE", httpStatus: http.StatusBadRequest,
		Message: "the call ended without the request message that the method takes",
	}
	errManyMessages = &callError{
		Code: codes.Unimplemented, Reason: "BAD_MESSAGE", httpStatus: http.StatusBadRequest,
		Message: "the method takes one request message, and more came",
	}
	errBadFlags = &callError{
		Code: codes.Internal, Reason: "BAD_MESSAGE", httpStatus: http.StatusBadRequest,
		Message: "a message does not begin with flags of a request; each stands behind a byte of flags and four of its length",
	}
	errNotNegotiated = &callError{
		Code: codes.Internal, Reason: "BAD_MESSAGE", httpStatus: http.StatusBadRequest,
		Message: "the message is compressed, and no header says how",
	}
	errCompression = &callError{
		Code: codes.Unimplemented, Reason: "CONTENT_ENCODING_UNSUPPORTED", httpStatus: http.StatusUnsupportedMediaType,
		Message: "the request is compressed in a way that is not known here; known are gzip and zstd",
	}
	errCodec = &callError{
		Code: codes.Unimplemented, Reason: "CONTENT_TYPE_UNSUPPORTED", httpStatus: http.StatusUnsupportedMediaType,
		Message: "the method is not called with this content type",
	}
	errNeedsHTTP2 = &callError{
		Code: codes.Unimplemented, Reason: "WRONG_PORT", httpStatus: http.StatusHTTPVersionNotSupported,
		Message: "gRPC needs HTTP/2",
	}
	errWrongPort = &callError{
		Code: codes.Unimplemented, Reason: "WRONG_PORT",
		Message: "the protocol of this request is not served on this port",
	}
	errHeadOfStream = &callError{
		Code: codes.Unimplemented, Reason: "METHOD_NOT_ALLOWED", httpStatus: http.StatusMethodNotAllowed,
		Message: "a stream of messages has no HEAD", allow: []string{http.MethodGet, http.MethodOptions},
	}
	errDraining = &callError{
		Code: codes.Unavailable, Reason: "DRAINING", RetryAfter: time.Second,
		Message: "the gateway is stopping and could not wait for the call any longer",
	}
	// Not 429: it is the gateway's trouble, and not of the caller's making.
	errOverloaded = fixed(callError{
		Code: codes.ResourceExhausted, Reason: "OVERLOADED", httpStatus: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Message: "the gateway has more calls than it can serve, and this one is among those that it sheds",
	})
	errDeadlinePassed = &callError{
		Code: codes.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED",
		Message: "the caller's deadline passed before the call could be forwarded",
	}
)

// badRequest is a 400 with its own reason.
func badRequest(reason, message string) *callError {
	return &callError{Code: codes.InvalidArgument, Reason: reason, Message: message}
}

// describe is the one error table: it maps what the rooms return to what the
// caller is told. A nil error gives a nil failure.
func describe(err error) *callError {
	if err == nil {
		return nil
	}
	var failure *callError
	if errors.As(err, &failure) {
		return failure
	}
	var fromBackend *rpcproxy.StatusError
	if errors.As(err, &fromBackend) {
		return &callError{Code: fromBackend.Status.Code(), Message: fromBackend.Status.Message(), backend: fromBackend.Status}
	}
	for _, row := range errorTable {
		if failure = row(err); failure != nil {
			failure.cause = err
			return failure
		}
	}
	return &callError{Code: codes.Internal, Reason: "INTERNAL", Message: "the gateway failed to serve the call", cause: err}
}

var errorTable = []func(error) *callError{
	describePanic, describeRouting, describeAuth, describeInput, describeAnswer, describeForward, describeContext, describeExchange,
}

func describePanic(err error) *callError {
	var p *panicError
	if errors.As(err, &p) {
		return &callError{Code: codes.Internal, Reason: "INTERNAL", Message: "the gateway failed to serve the call"}
	}
	return nil
}

func describeRouting(err error) *callError {
	var (
		notFound   *routes.NotFoundError
		notAllowed *routes.MethodNotAllowedError
		badPath    *routes.BadPathError
	)
	switch {
	case errors.As(err, &notFound):
		if len(notFound.Pending) > 0 {
			// The route may well exist: a backend whose descriptors
			// have not been read yet may have it.
			return &callError{
				Code: codes.Unavailable, Reason: "ROUTES_PENDING", RetryAfter: time.Second,
				Message: "no route matches, and not all backends' routes are known yet",
			}
		}
		return &callError{Code: codes.NotFound, Reason: "NO_ROUTE", Message: "no route matches the request"}
	case errors.As(err, &notAllowed):
		return &callError{
			Code: codes.Unimplemented, Reason: "METHOD_NOT_ALLOWED", httpStatus: http.StatusMethodNotAllowed,
			Message: "the path has no route for this HTTP method", allow: notAllowed.Allow,
		}
	case errors.As(err, &badPath):
		return badRequest("BAD_PATH", "the path is malformed: "+badPath.Error())
	}
	return nil
}

// describeAuth keeps every refusal apart from "cannot tell": a Redis that is
// down must never look like a wrong token, and a wrong token not like an
// unknown app.
func describeAuth(err error) *callError {
	refused := func(reason, message string) *callError {
		return &callError{Code: codes.Unauthenticated, Reason: reason, Message: message}
	}
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return &callError{
			Code: codes.Unavailable, Reason: "AUTH_UNAVAILABLE", RetryAfter: time.Second,
			Message: "the credential cannot be verified at the moment",
		}
	case isTooManyFailures(err):
		return describeTooManyFailures(err)
	case errors.Is(err, auth.ErrMissing):
		return refused("CREDENTIAL_MISSING",
			"the call carries no credential; send Authorization: Bearer <app>.<token>, or X-App and X-Token over HTTP, app and token over gRPC")
	case errors.Is(err, auth.ErrMalformed):
		return refused("CREDENTIAL_MALFORMED", auth.PublicText(err))
	case errors.Is(err, auth.ErrExpired):
		return refused("TOKEN_EXPIRED", "the token has expired")
	case errors.Is(err, auth.ErrRevoked):
		return refused("TOKEN_REVOKED", "the token was revoked")
	case errors.Is(err, auth.ErrSuspended):
		return &callError{Code: codes.PermissionDenied, Reason: "APP_SUSPENDED", Message: "the app is suspended"}
	case errors.Is(err, auth.ErrInvalid):
		return refused("TOKEN_INVALID", "the app is unknown or the token is wrong")
	}
	return nil
}

func describeInput(err error) *callError {
	var bad *transcode.Error
	if errors.As(err, &bad) {
		f := badRequest("BAD_REQUEST", bad.Error())
		f.field = bad.Field
		return f
	}
	return nil
}

// describeAnswer is for a backend's message that has no form for the caller.
func describeAnswer(err error) *callError {
	var bad *transcode.ResponseError
	switch {
	case !errors.As(err, &bad):
		return nil
	case errors.Is(bad, transcode.ErrResponseTooLarge):
		return &callError{
			Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", httpStatus: http.StatusBadGateway,
			Message: "the backend's answer is too large as JSON",
		}
	}
	return &callError{Code: codes.Internal, Reason: "BAD_RESPONSE", Message: "the backend's answer does not fit its descriptor"}
}

func describeForward(err error) *callError {
	var (
		open        *rpcproxy.BreakerOpenError
		busy        *rpcproxy.BusyError
		unreachable *rpcproxy.UnreachableError
		timeout     *rpcproxy.TimeoutError
		local       *rpcproxy.LocalError
	)
	switch {
	case errors.As(err, &busy):
		// Not UNAVAILABLE, which gRPC's clients try again at once.
		return &callError{
			Code: codes.ResourceExhausted, Reason: "BACKEND_BUSY", httpStatus: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Message: busy.Error(),
		}
	case errors.As(err, &open):
		return &callError{
			Code: codes.Unavailable, Reason: "BREAKER_OPEN", RetryAfter: max(open.RetryAfter, time.Second),
			Message: open.Error(),
		}
	case errors.As(err, &unreachable):
		return &callError{
			Code: codes.Unavailable, Reason: "BACKEND_UNREACHABLE", RetryAfter: time.Second,
			Message: unreachable.Error(),
		}
	case errors.As(err, &timeout):
		return &callError{Code: codes.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED", Message: timeout.Error()}
	case errors.As(err, &local):
		return describeLocal(local)
	}
	return nil
}

// describeLocal is for what kept a call from its backend, or its answer from
// the caller, on this side.
func describeLocal(err *rpcproxy.LocalError) *callError {
	f := &callError{Code: err.Status.Code(), Reason: "BACKEND_CALL_FAILED", Message: err.Error()}
	switch {
	case errors.Is(err, rpcproxy.ErrRevoked):
		f.Reason = "TOKEN_REVOKED"
	case errors.Is(err, rpcproxy.ErrPoolFull):
		f.Code, f.Reason, f.RetryAfter = codes.Unavailable, "POOL_FULL", time.Second
	case errors.Is(err, rpcproxy.ErrClosed), errors.Is(err, rpcproxy.ErrDrained):
		f.Reason, f.RetryAfter = "DRAINING", time.Second
	case strings.Contains(err.Status.Message(), "header list size to send violates"):
		f.Code, f.Reason, f.httpStatus = codes.ResourceExhausted, "METADATA_TOO_LARGE", http.StatusRequestHeaderFieldsTooLarge
		f.Message = "the call's headers are larger than the backend accepts"
	case f.Code == codes.ResourceExhausted:
		// Not 429: the same message never fits, however long one waits.
		f.Reason, f.httpStatus = "MESSAGE_TOO_LARGE", http.StatusRequestEntityTooLarge
		if strings.Contains(err.Status.Message(), "received message") {
			f.httpStatus = http.StatusBadGateway // it is the backend's
		}
	}
	return f
}

// describeExchange is for what the gRPC server says of the caller's own
// messages: too large, compressed in an unknown way, cut off.
func describeExchange(err error) *callError {
	var exchange *rpcproxy.ExchangeError
	if !errors.As(err, &exchange) {
		return nil
	}
	s, ok := status.FromError(exchange.Err)
	if !ok {
		return nil
	}
	if s.Code() == codes.ResourceExhausted {
		return &callError{
			Code: s.Code(), Reason: "MESSAGE_TOO_LARGE", httpStatus: http.StatusRequestEntityTooLarge, Message: s.Message(),
		}
	}
	return &callError{Code: s.Code(), Reason: "BAD_MESSAGE", Message: s.Message()}
}

func describeContext(err error) *callError {
	switch {
	case errors.Is(err, context.Canceled):
		return &callError{Code: codes.Canceled, Reason: "CANCELLED", Message: "the caller cancelled the call"}
	case errors.Is(err, context.DeadlineExceeded):
		return &callError{Code: codes.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED", Message: "the call took longer than its deadline"}
	}
	return nil
}

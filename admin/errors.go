package admin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// reasonStore is the reason of what Redis did not do.
const reasonStore = "STORE_UNAVAILABLE"

// errorDomain is that of the gateway's own errors.
const errorDomain = "rpcgate"

// statusError is a status with a reason, and whatever else is to be told.
func statusError(code codes.Code, reason, message string, more ...protoadapt.MessageV1) error {
	s := status.New(code, message)
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}}, more...)
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

// badField says which field of a request cannot be.
func badField(field, fault string) error {
	return statusError(codes.InvalidArgument, "BAD_REQUEST", fault, &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: fault}},
	})
}

func retryLater(wait time.Duration) error {
	return statusError(codes.ResourceExhausted, "OPERATOR_FAILS_OFTEN", "too many attempts failed; try again later",
		&errdetails.RetryInfo{RetryDelay: durationpb.New(max(wait, time.Second))})
}

// failure makes a status of what the store says.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if input, ok := errors.AsType[*tenant.InputError](err); ok {
		return badField(input.Field, input.Fault)
	}
	for _, row := range []struct {
		is     error
		code   codes.Code
		reason string
	}{
		{tenant.ErrInput, codes.InvalidArgument, "BAD_REQUEST"},
		{tenant.ErrNoToken, codes.NotFound, "NO_TOKEN"},
		{tenant.ErrNoApp, codes.NotFound, "NO_APP"},
		{tenant.ErrAppExists, codes.AlreadyExists, "APP_EXISTS"},
		{tenant.ErrConflict, codes.Aborted, "CONFLICT"},
		{tenant.ErrExists, codes.AlreadyExists, "RECORD_EXISTS"},
		{tenant.ErrTooMany, codes.ResourceExhausted, "TOO_MANY_TOKENS"},
		{tenant.ErrReplaced, codes.FailedPrecondition, "TOKEN_REPLACED"},
		{tenant.ErrLayout, codes.FailedPrecondition, "LAYOUT"},
		{tenant.ErrUnconfirmed, codes.Unavailable, "UNCONFIRMED"},
	} {
		if errors.Is(err, row.is) {
			return statusError(row.code, row.reason, err.Error())
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return statusError(codes.Unavailable, reasonStore, "the store of apps and tokens cannot be asked")
}

// reasonOf is a status' reason; empty: it has none.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

package rpcproxy

import (
	"context"
	"errors"
)

// unary carries one message each way, on the caller's goroutine. The request
// message is the call's, which each attempt sends.
func (a *attempt) unary(ctx context.Context) error {
	a.in.Data = a.call.in
	err := a.lease.Conn().Invoke(ctx, a.call.request.Method, &a.in, &a.out, a.callOptions()...)
	if err != nil {
		a.out.Free()
		err = a.fail(ctx, err)
		answered, ok := errors.AsType[*StatusError](err)
		if !ok {
			return err
		}
		if a.header != nil {
			if sendErr := a.call.ex.SendHeader(tidyHeader(a.header)); sendErr != nil {
				return a.exchangeFailed(&ExchangeError{Err: sendErr})
			}
		}
		a.call.ex.SetTrailer(tidyTrailer(a.trailer, answered.Status))
		return err
	}
	if err := a.call.ex.SendHeader(tidyHeader(a.header)); err != nil {
		a.out.Free()
		return a.exchangeFailed(&ExchangeError{Err: err})
	}
	if err := a.call.ex.SendMsg(a.out.Take()); err != nil {
		return a.exchangeFailed(&ExchangeError{Err: err})
	}
	a.call.ex.SetTrailer(tidyTrailer(a.trailer, nil))
	return nil
}

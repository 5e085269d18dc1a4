package rpcproxy

import (
	"context"
	"errors"
)

// unary carries one message each way, on the caller's goroutine. The request
// message is in a.in already.
func (a *attempt) unary(ctx context.Context) error {
	err := a.lease.Conn().Invoke(ctx, a.request.Method, &a.in, &a.out, a.callOptions()...)
	if err != nil {
		a.out.Free()
		err = a.fail(ctx, err)
		answered, ok := errors.AsType[*StatusError](err)
		if !ok {
			return err
		}
		if a.header != nil {
			if sendErr := a.ex.SendHeader(tidyHeader(a.header)); sendErr != nil {
				return a.exchangeFailed(&ExchangeError{Err: sendErr})
			}
		}
		a.ex.SetTrailer(tidyTrailer(a.trailer, answered.Status))
		return err
	}
	if err := a.ex.SendHeader(tidyHeader(a.header)); err != nil {
		a.out.Free()
		return a.exchangeFailed(&ExchangeError{Err: err})
	}
	if err := a.ex.SendMsg(a.out.Take()); err != nil {
		return a.exchangeFailed(&ExchangeError{Err: err})
	}
	a.ex.SetTrailer(tidyTrailer(a.trailer, nil))
	return nil
}

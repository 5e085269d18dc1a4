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
		a.answered = a.out.Data != nil
		a.out.Free()
		return a.fail(ctx, err)
	}
	return nil
}

// answer gives the exchange what the backend answered.
func (a *attempt) answer(err error) error {
	ex := a.call.ex
	var answered *StatusError
	if err != nil && !errors.As(err, &answered) {
		return err
	}
	if err == nil || a.header != nil {
		if sendErr := ex.SendHeader(tidyHeader(a.header)); sendErr != nil {
			a.out.Free()
			return a.exchangeFailed(&ExchangeError{Err: sendErr})
		}
	}
	if err != nil {
		ex.SetTrailer(tidyTrailer(a.trailer, answered.Status))
		return err
	}
	if sendErr := ex.SendMsg(a.out.Take()); sendErr != nil {
		return a.exchangeFailed(&ExchangeError{Err: sendErr})
	}
	ex.SetTrailer(tidyTrailer(a.trailer, nil))
	return nil
}

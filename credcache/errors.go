package credcache

import "errors"

// errGone means that the loader ended its goroutine (runtime.Goexit).
var errGone = errors.New("loader exited without an answer")

// PanicError is what all who wait for a look-up get when its loader panics.
// Its text leaves the panic's value out, which may hold anything.
type PanicError struct {
	Value any    // what the loader panicked with
	Stack []byte // of the loader's goroutine
}

func (e *PanicError) Error() string { return "panic in a look-up" }

type outcome int

const (
	outcomeOK outcome = iota
	outcomeNotFound
	outcomeFailed
	outcomeTimeout
	outcomePanic
	outcomeBusy
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"ok", "not_found", "failed", "timeout", "panic", "busy"}

func outcomeOf(err error) outcome {
	var p *PanicError
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, ErrNotFound):
		return outcomeNotFound
	case errors.Is(err, ErrLoadTimeout):
		return outcomeTimeout
	case errors.As(err, &p):
		return outcomePanic
	default:
		return outcomeFailed
	}
}

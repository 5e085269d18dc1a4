package auth

import "errors"

// The kinds of refusal, for errors.Is. Their texts may be shown to the caller;
// see [PublicText].
var (
	// ErrMissing means that the request has no credential at all.
	ErrMissing = errors.New("no credential was given")
	// ErrMalformed means that what the request has is no credential, or is
	// given twice.
	ErrMalformed = errors.New("malformed credential")
	// ErrInvalid means an unknown app or a wrong token; which of them is not told.
	ErrInvalid = errors.New("unknown app or wrong token")
	// ErrExpired means that the token was the app's, but its time is over.
	ErrExpired = errors.New("the token has expired")
	// ErrRevoked means that the token was the app's, but was revoked.
	ErrRevoked = errors.New("the token was revoked")
	// ErrSuspended means that the token is good, but its app was suspended.
	ErrSuspended = errors.New("the app is suspended")
	// ErrUnavailable means that it is not known whether the credential is
	// valid, because Redis could not be asked.
	ErrUnavailable = errors.New("credentials cannot be verified at the moment")
)

// Error is a refusal with its reasons. errors.Is finds its kind and nothing
// else: the cause is for logs, and must not be taken for what happened to the
// call (a look-up that timed out is not the caller's deadline).
type Error struct {
	kind   error
	detail string // for the caller; "" if the kind says it all
	cause  error  // for logs; may be nil
}

// Error is the whole text, for logs.
func (e *Error) Error() string {
	text := e.Public()
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Public is the text for the caller.
func (e *Error) Public() string {
	if e.detail == "" {
		return e.kind.Error()
	}
	return e.kind.Error() + ": " + e.detail
}

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.kind }

// Cause is what led to the refusal, or nil.
func (e *Error) Cause() error { return e.cause }

// PublicText is the text of a refusal that the caller may see. Of any other
// error it is "".
func PublicText(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Public()
	}
	for _, kind := range []error{ErrMissing, ErrMalformed, ErrInvalid, ErrExpired, ErrRevoked, ErrSuspended, ErrUnavailable} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return ""
}

func malformed(detail string) error { return &Error{kind: ErrMalformed, detail: detail} }

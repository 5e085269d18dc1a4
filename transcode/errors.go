package transcode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Error says that the caller's input is bad. Its text may be shown to the
// caller: it names the field and what is wrong, and repeats no values.
type Error struct {
	// Field is the path of the field, as the caller wrote it where he wrote it: "user.id", "items[2].price",
	// "labels[a]". Empty: the fault is with the body or the query as a whole.
	Field string
	// Reason says what is wrong: "not a valid int32".
	Reason string
	// Offset is where in the body the fault lies, in bytes; -1: not known, or not in the body.
	Offset int
}

// Error is "items[2].price: not a valid double (at byte 118)".
func (e *Error) Error() string {
	text := e.Reason
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Offset < 0 {
		return text
	}
	return text + " (at byte " + strconv.Itoa(e.Offset) + ")"
}

// newError is an [Error] that is not about a place in the body.
func newError(field, reason string) *Error {
	return &Error{Field: field, Reason: reason, Offset: -1}
}

// ResponseError says that a backend's answer cannot be shown as JSON: its
// bytes are no such message, or a value in it has no JSON form. It is the
// backend's fault, not the caller's.
type ResponseError struct {
	// Message is the full name of the message type.
	Message string

	cause error
}

// ErrResponseTooLarge is in a [ResponseError] of a valid answer that would be too much JSON.
var ErrResponseTooLarge = errors.New("larger than 64 MiB as JSON")

func (e *ResponseError) Error() string {
	if errors.Is(e.cause, ErrResponseTooLarge) {
		return fmt.Sprintf("the backend's answer cannot be shown as JSON: a %s %v", e.Message, ErrResponseTooLarge)
	}
	return fmt.Sprintf("the backend's answer cannot be shown as JSON: not a valid %s", e.Message)
}

// Unwrap gives the cause, which is for logs and may quote the answer.
func (e *ResponseError) Unwrap() error { return e.cause }

// BindingError says that a binding does not fit its method.
type BindingError struct {
	// Method is the method's full name, package.Service.Method.
	Method string
	// What names the part of the binding: `body "user"`, `variable "name"`.
	What string
	// Reason says what is wrong with it.
	Reason string
}

func (e *BindingError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Method, e.What, e.Reason)
}

// maxQuoted bounds what an error repeats of a caller's field name.
const maxQuoted = 128

// fieldName bounds a name that the caller made up, and keeps it printable.
func fieldName(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

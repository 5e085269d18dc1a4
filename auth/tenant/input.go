package tenant

import (
	"errors"
	"strings"
)

// Bounds of a credential, in bytes.
const (
	MaxApp   = 64
	MaxToken = 256
)

// ErrInput means that what was given cannot be: a bad app id, a note that is too
// long. Nothing was asked of Redis.
var ErrInput = errors.New("invalid")

// InputError says what of the input is wrong. Its text may be shown.
type InputError struct {
	Field string // as JSON has it: "scopes"
	Fault string // a sentence: "the note is longer than 256 bytes"
}

// Error is the fault.
func (e *InputError) Error() string { return e.Fault }

// Is makes it an [ErrInput].
func (e *InputError) Is(target error) bool { return target == ErrInput }

// ValidateApp checks that app can be an app id: 1 to 64 of A-Z, a-z, 0-9, "_"
// and "-". Errors: [ErrInput].
func ValidateApp(app string) error {
	if fault := AppFault(app); fault != "" {
		return &InputError{"app", fault}
	}
	return nil
}

// AppFault is what keeps app from being an app id, or "".
func AppFault(app string) string {
	switch {
	case app == "":
		return "the app id is empty"
	case len(app) > MaxApp:
		return "the app id is longer than 64 characters"
	}
	for i := range len(app) {
		switch c := app[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return "the app id has a character other than A-Z a-z 0-9 _ -"
		}
	}
	return ""
}

// TokenFault is what keeps token from being the token of a credential, of
// whatever layout, or "".
func TokenFault(token string) string {
	switch {
	case token == "":
		return "the token is empty"
	case len(token) > MaxToken:
		return "the token is longer than 256 characters"
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' {
			return "the token has a character that is not printable ASCII, or a space"
		}
	}
	return ""
}

const maxNote = 256

// oneLine checks a text for people.
func oneLine(field, text string, limit int) error {
	if len(text) > limit {
		return &InputError{field, "the " + field + " is too long"}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &InputError{field, "the " + field + " has a control character"}
	}
	return nil
}

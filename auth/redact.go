package auth

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

func redact(secret string) string {
	if secret == "" {
		return ""
	}
	return redacted
}

// String hides the token.
func (c Credential) String() string { return c.App + ":" + redact(c.Token) }

// GoString hides the token from %#v.
func (c Credential) GoString() string {
	return fmt.Sprintf("auth.Credential{App:%q, Token:%q}", c.App, redact(c.Token))
}

// Format hides the token from every verb.
func (c Credential) Format(f fmt.State, verb rune) { format(f, verb, c.String(), c.GoString()) }

// LogValue hides the token from slog.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON hides the token.
func (c Credential) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"app": c.App, "token": redact(c.Token)})
}

func format(f fmt.State, verb rune, plain, goSyntax string) {
	if verb == 'v' && f.Flag('#') {
		plain = goSyntax
	}
	_, _ = io.WriteString(f, plain)
}

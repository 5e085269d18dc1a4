package tenant

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

// String hides the secret.
func (i Issued) String() string { return i.App + "/" + i.ID + ":" + redact(i.Secret) }

// GoString hides the secret from %#v.
func (i Issued) GoString() string {
	return fmt.Sprintf("tenant.Issued{Secret:%q, Token:%#v}", redact(i.Secret), i.Token)
}

// Format hides the secret from every verb.
func (i Issued) Format(f fmt.State, verb rune) {
	text := i.String()
	if verb == 'v' && f.Flag('#') {
		text = i.GoString()
	}
	_, _ = io.WriteString(f, text)
}

// LogValue hides the secret from slog.
func (i Issued) LogValue() slog.Value { return slog.StringValue(i.String()) }

// MarshalJSON hides the secret.
func (i Issued) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Secret string `json:"token"`
		Token
	}{redact(i.Secret), i.Token})
}

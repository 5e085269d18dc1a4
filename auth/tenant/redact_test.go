package tenant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// printed is v in every way that values are printed.
func printed(t *testing.T, v any) map[string]string {
	t.Helper()
	out := map[string]string{}
	// Not %p of a value: fmt prints that by force as a mistake, and vet refuses it.
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "% x", "%10v"} {
		out[verb] = fmt.Sprintf(verb, v)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out["json"] = string(j)
	for name, h := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(h(&b)).Info("it", "v", v)
		out[name] = b.String()
	}
	return out
}

func TestNoSecretIsPrinted(t *testing.T) {
	text, token := NewToken()
	issued := Issued{Secret: text, Token: Token{App: "acme", ID: token.ID}}
	secret := text[secretStart : secretStart+secretLen]
	for name, v := range map[string]any{
		"issued": issued, "pointer to issued": &issued, "slice": []Issued{issued},
		"token": token, "field of token": struct{ T ParsedToken }{token},
	} {
		for way, got := range printed(t, v) {
			for _, s := range []string{secret, text, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
				if strings.Contains(got, s) {
					t.Errorf("%s printed as %s shows the secret", name, way)
				}
			}
		}
	}
}

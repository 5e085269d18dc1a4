package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/auth/tenant"
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
	text, _ := tenant.NewToken()
	c := Credential{"acme", text}
	secret := text[secretStart : secretStart+52]
	hidden := []string{secret, text, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)}
	for name, v := range map[string]any{
		"credential": c, "pointer": &c, "slice": []Credential{c}, "field": struct{ C Credential }{c},
		"map": map[string]Credential{"c": c},
	} {
		for way, got := range printed(t, v) {
			for _, s := range hidden {
				if strings.Contains(got, s) {
					t.Errorf("%s printed as %s shows the secret", name, way)
				}
			}
		}
	}
	for way, want := range map[string]string{"%v": "acme:[redacted]", "json": `{"app":"acme","token":"[redacted]"}`,
		"%#v": `auth.Credential{App:"acme", Token:"[redacted]"}`} {
		if got := printed(t, c)[way]; got != want {
			t.Errorf("%s is %s, want %s", way, got, want)
		}
	}
	if got := fmt.Sprint(Credential{App: "acme"}); got != "acme:" {
		t.Errorf("a credential without a token is %q", got)
	}
}

package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func socketEntry(plain string) string {
	return "rpcgate.token." + base64.RawURLEncoding.EncodeToString([]byte(plain))
}

func TestCredentialFromWebSocket(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", 64) + "." + strings.Repeat("!", 256)
	for _, tc := range []struct {
		name   string
		header http.Header
		want   Credential
		err    error
		text   string // in the error
	}{
		{"none", http.Header{}, Credential{}, ErrMissing, ""},
		{"no entry that is meant", http.Header{"Sec-Websocket-Protocol": {"rpcgate.json, token, rpcgate.token"}}, Credential{}, ErrMissing, ""},
		{"entry", http.Header{"Sec-Websocket-Protocol": {"rpcgate.json, " + socketEntry("acme.s3.cr.et")}}, Credential{"acme", "s3.cr.et"}, nil, ""},
		{"entry in a line of its own", http.Header{"Sec-Websocket-Protocol": {"rpcgate.json", socketEntry("acme.s3cret")}}, Credential{"acme", "s3cret"}, nil, ""},
		{"longest", http.Header{"Sec-Websocket-Protocol": {socketEntry(longest)}}, Credential{longest[:64], longest[65:]}, nil, ""},
		{"header", http.Header{"Authorization": {"Bearer acme.s3cret"}, "Sec-Websocket-Protocol": {"rpcgate.json"}}, Credential{"acme", "s3cret"}, nil, ""},

		{"entry and header", http.Header{"Authorization": {"Bearer acme.s3cret"}, "Sec-Websocket-Protocol": {socketEntry("acme.s3cret")}}, Credential{}, ErrMalformed, "not both"},
		{"entry and app", http.Header{"X-App": {"acme"}, "Sec-Websocket-Protocol": {socketEntry("acme.s3cret")}}, Credential{}, ErrMalformed, "not both"},
		{"two entries", http.Header{"Sec-Websocket-Protocol": {socketEntry("acme.a") + "," + socketEntry("acme.b")}}, Credential{}, ErrMalformed, "more than one"},
		{"empty", http.Header{"Sec-Websocket-Protocol": {"rpcgate.token."}}, Credential{}, ErrMalformed, "<app>.<token>"},
		{"padded", http.Header{"Sec-Websocket-Protocol": {socketEntry("acme.s3cre") + "=="}}, Credential{}, ErrMalformed, "without padding"},
		{"the other alphabet", http.Header{"Sec-Websocket-Protocol": {"rpcgate.token.YWNtZS5+/w"}}, Credential{}, ErrMalformed, "base64url"},
		{"bits beside", http.Header{"Sec-Websocket-Protocol": {"rpcgate.token.YWNtZS5hYh"}}, Credential{}, ErrMalformed, "base64url"},
		{"no dot", http.Header{"Sec-Websocket-Protocol": {socketEntry("acme")}}, Credential{}, ErrMalformed, "<app>.<token>"},
		{"no app", http.Header{"Sec-Websocket-Protocol": {socketEntry(".x")}}, Credential{}, ErrMalformed, "app id is empty"},
		{"a line break", http.Header{"Sec-Websocket-Protocol": {"rpcgate.token.YWNt\r\nZS54"}}, Credential{}, ErrMalformed, "base64url"},
		{"too long", http.Header{"Sec-Websocket-Protocol": {socketEntry(longest + "!")}}, Credential{}, ErrMalformed, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := CredentialFromWebSocket(tc.header)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Fatalf("got app %q, %v; want app %q, %v", got.App, err, tc.want.App, tc.err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("the error is %q; want %q in it", err, tc.text)
			}
		})
	}
}

// What is accepted is what Authorization gives for the same credential, has one
// spelling, and its secret is in no error.
func FuzzCredentialFromWebSocket(f *testing.F) {
	f.Add("rpcgate.json, " + socketEntry("acme.s3cret"))
	f.Add("rpcgate.token.")
	f.Add("rpcgate.token.YWNtZS5hYh,rpcgate.token.~")
	f.Add(" rpcgate.token.YWNt\r\nZS54 ")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := CredentialFromWebSocket(http.Header{"Sec-Websocket-Protocol": {line}})
		if err != nil {
			if !errors.Is(err, ErrMissing) && !errors.Is(err, ErrMalformed) || c != (Credential{}) {
				t.Fatalf("refused with %v and app %q", err, c.App)
			}
			return
		}
		again, err := CredentialFromHTTP(http.Header{"Authorization": {"Bearer " + c.App + "." + c.Token}})
		if again != c || err != nil {
			t.Errorf("as Authorization it reads app %q, %v; want app %q", again.App, err, c.App)
		}
		if !strings.Contains(line, socketEntry(c.App+"."+c.Token)) {
			t.Errorf("%q is another spelling of app %q", line, c.App)
		}
	})
}

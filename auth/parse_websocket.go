package auth

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// entryPrefix begins the Sec-WebSocket-Protocol entry that holds a credential.
const entryPrefix = "rpcgate.token."

// maxEntry is the longest base64 text of such an entry: app.token.
const maxEntry = ((tenant.MaxApp+1+tenant.MaxToken)*8 + 5) / 6

// CredentialFromWebSocket reads the credential of a WebSocket handshake: as
// over HTTP, or from an entry `rpcgate.token.<base64url of app.token, without
// padding>` of Sec-WebSocket-Protocol, for browsers, whose pages can set no
// other header there. Errors: [ErrMissing], [ErrMalformed].
func CredentialFromWebSocket(h http.Header) (Credential, error) {
	text, found, err := websocketEntry(h["Sec-Websocket-Protocol"])
	switch {
	case err != nil:
		return Credential{}, err
	case !found:
		return CredentialFromHTTP(h)
	case len(h["Authorization"]) > 0 || len(h["X-App"]) > 0 || len(h["X-Token"]) > 0:
		return Credential{}, malformed("give the credential in a header or in sec-websocket-protocol, not both")
	case len(text) > maxEntry:
		return Credential{}, malformed("the credential in sec-websocket-protocol is too long")
	case strings.ContainsAny(text, "\r\n"): // which decoding skips
		return Credential{}, malformed("the credential in sec-websocket-protocol is not base64url")
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Credential{}, malformed("the credential in sec-websocket-protocol is not base64url without padding")
	}
	app, token, ok := strings.Cut(string(plain), ".")
	if !ok {
		return Credential{}, malformed("the credential in sec-websocket-protocol is not base64url of <app>.<token>")
	}
	return checked(app, token)
}

// websocketEntry finds the one entry that holds a credential.
func websocketEntry(lines []string) (text string, found bool, err error) {
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, ",") {
			rest, ok := strings.CutPrefix(strings.Trim(entry, " \t"), entryPrefix)
			if !ok {
				continue
			}
			if found {
				return "", false, malformed("sec-websocket-protocol has more than one credential")
			}
			text, found = rest, true
		}
	}
	return text, found, nil
}

package auth

import (
	"encoding/base64"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// maxBasic is the longest base64 text of a Basic credential: app:token.
const maxBasic = (tenant.MaxApp + 1 + tenant.MaxToken + 2) / 3 * 4

// CredentialHeaders are the names, in lower case, of the headers and metadata
// that can hold a credential. They are never passed on as they came.
func CredentialHeaders() []string {
	return []string{"app", "token", "authorization", "x-app", "x-token"}
}

// CredentialFromHTTP reads the credential of an HTTP request: Authorization
// (Bearer <app>.<token>, or Basic), or X-App with X-Token. h has canonical
// names, as net/http makes them. Errors: [ErrMissing], [ErrMalformed].
func CredentialFromHTTP(h http.Header) (Credential, error) {
	return parse(h["Authorization"], pair{"x-app", "x-token", h["X-App"], h["X-Token"]})
}

// CredentialFromMetadata reads the credential of a gRPC call: metadata app with
// token, as zRPC has them, or authorization as over HTTP. Errors: [ErrMissing],
// [ErrMalformed].
func CredentialFromMetadata(md metadata.MD) (Credential, error) {
	return parse(md["authorization"], pair{"app", "token", md["app"], md["token"]})
}

// CredentialFromRPC reads the credential of a call in an RPC protocol over
// net/http: in any of the forms of [CredentialFromHTTP] and
// [CredentialFromMetadata]. Errors: [ErrMissing], [ErrMalformed].
func CredentialFromRPC(h http.Header) (Credential, error) {
	apps, tokens := h["App"], h["Token"]
	if len(apps) == 0 && len(tokens) == 0 {
		return CredentialFromHTTP(h)
	}
	if len(h["X-App"]) > 0 || len(h["X-Token"]) > 0 {
		return Credential{}, malformed("give app and token, or x-app and x-token, not both")
	}
	return parse(h["Authorization"], pair{"app", "token", apps, tokens})
}

// pair is the form that has app and token apart: the names, for errors, and
// what is given under them.
type pair struct {
	appName, tokenName string
	apps, tokens       []string
}

// parse is the one parser. There must be exactly one form, and each of its
// parts exactly once: what one reader takes for the first and another for the
// last is how checks are got around.
func parse(authorization []string, p pair) (Credential, error) {
	hasPair := len(p.apps) > 0 || len(p.tokens) > 0
	switch {
	case len(authorization) == 0 && !hasPair:
		return Credential{}, ErrMissing
	case len(authorization) > 0 && hasPair:
		return Credential{}, malformed("give authorization, or " + p.appName + " and " + p.tokenName + ", not both")
	case hasPair:
		return p.parse()
	case len(authorization) > 1:
		return Credential{}, malformed("authorization is given more than once")
	default:
		return parseAuthorization(authorization[0])
	}
}

func (p pair) parse() (Credential, error) {
	switch {
	case len(p.apps) == 0:
		return Credential{}, malformed(p.tokenName + " is given without " + p.appName)
	case len(p.tokens) == 0:
		return Credential{}, malformed(p.appName + " is given without " + p.tokenName)
	case len(p.apps) > 1:
		return Credential{}, malformed(p.appName + " is given more than once")
	case len(p.tokens) > 1:
		return Credential{}, malformed(p.tokenName + " is given more than once")
	}
	return checked(p.apps[0], p.tokens[0])
}

// parseAuthorization reads `<scheme> <credential>`; the scheme's case does not
// matter (RFC 9110, 11.1).
func parseAuthorization(value string) (Credential, error) {
	scheme, rest, _ := strings.Cut(value, " ")
	switch {
	case strings.EqualFold(scheme, "bearer"):
		app, token, ok := strings.Cut(rest, ".")
		if !ok {
			return Credential{}, malformed("authorization is not `Bearer <app>.<token>`")
		}
		return checked(app, token)
	case strings.EqualFold(scheme, "basic"):
		return parseBasic(rest)
	default:
		return Credential{}, malformed("the scheme of authorization is neither Bearer nor Basic")
	}
}

func parseBasic(text string) (Credential, error) {
	if len(text) > maxBasic {
		return Credential{}, malformed("authorization is too long")
	}
	// Decode skips line breaks; a credential has none.
	if strings.ContainsAny(text, "\r\n") {
		return Credential{}, malformed("authorization is not base64")
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Credential{}, malformed("authorization is not base64")
	}
	app, token, ok := strings.Cut(string(plain), ":")
	if !ok {
		return Credential{}, malformed("authorization is not `Basic` with base64 of <app>:<token>")
	}
	return checked(app, token)
}

func checked(app, token string) (Credential, error) {
	if fault := tenant.AppFault(app); fault != "" {
		return Credential{}, malformed(fault)
	}
	if fault := tenant.TokenFault(token); fault != "" {
		return Credential{}, malformed(fault)
	}
	return Credential{App: app, Token: token}, nil
}

// ValidateApp checks that app can be an app id: 1 to 64 of A-Z, a-z, 0-9, "_"
// and "-". Errors: [ErrMalformed].
func ValidateApp(app string) error {
	if fault := tenant.AppFault(app); fault != "" {
		return malformed(fault)
	}
	return nil
}

// TokenID is the public part of the text of a token, or "" if it is none of
// rpcgate's own. It keeps text in memory.
func TokenID(text string) string {
	token, _ := tenant.ParseToken(text)
	return token.ID
}

package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

func basic(plain string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(plain)) }

// given is what a request holds, under lower-case names.
type given map[string][]string

func (g given) http() (Credential, error) {
	h := http.Header{}
	for name, values := range g {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return CredentialFromHTTP(h)
}

func (g given) metadata() (Credential, error) { return CredentialFromMetadata(metadata.MD(g)) }

// The parser as its two users have it. The table names the pair of headers as
// metadata does; over HTTP they are x-app and x-token.
func TestCredential(t *testing.T) {
	app64, token256 := strings.Repeat("a", 64), strings.Repeat("!", 256)
	one := func(name, value string) given { return given{name: {value}} }
	pair := func(app, token string) given { return given{"app": {app}, "token": {token}} }
	for _, tc := range []struct {
		name string
		in   given
		want Credential
		err  error
		text string // in the error
	}{
		{"none", given{}, Credential{}, ErrMissing, "no credential"},
		{"an empty list", given{"authorization": {}}, Credential{}, ErrMissing, ""},
		{"pair", pair("acme", "s3cret"), Credential{"acme", "s3cret"}, nil, ""},
		{"bearer", one("authorization", "Bearer acme.s3.cr.et"), Credential{"acme", "s3.cr.et"}, nil, ""},
		{"bearer, other case", one("authorization", "bEaReR acme.s3cret"), Credential{"acme", "s3cret"}, nil, ""},
		{"basic", one("authorization", basic("acme:s3:cr:et")), Credential{"acme", "s3:cr:et"}, nil, ""},
		{"basic, other case", one("authorization", strings.Replace(basic("acme:s3cret"), "B", "b", 1)), Credential{"acme", "s3cret"}, nil, ""},
		{"longest pair", pair(app64, token256), Credential{app64, token256}, nil, ""},
		{"longest bearer", one("authorization", "Bearer "+app64+"."+token256), Credential{app64, token256}, nil, ""},
		{"longest basic", one("authorization", basic(app64+":"+token256)), Credential{app64, token256}, nil, ""},
		{"every character of an app id", pair("AZaz09_-", "~!"), Credential{"AZaz09_-", "~!"}, nil, ""},

		{"app alone", one("app", "acme"), Credential{}, ErrMalformed, "app is given without"},
		{"token alone", one("token", "s3cret"), Credential{}, ErrMalformed, "token is given without"},
		{"empty app", pair("", "s3cret"), Credential{}, ErrMalformed, "app id is empty"},
		{"empty token", pair("acme", ""), Credential{}, ErrMalformed, "token is empty"},
		{"long app", pair(app64+"a", "s3cret"), Credential{}, ErrMalformed, "longer than 64"},
		{"long token", pair("acme", token256+"!"), Credential{}, ErrMalformed, "longer than 256"},
		{"app with a dot", pair("ac.me", "s3cret"), Credential{}, ErrMalformed, "app id has a character"},
		{"app with a slash", pair("a/b", "s3cret"), Credential{}, ErrMalformed, "app id has a character"},
		{"app with a brace", pair("a}b", "s3cret"), Credential{}, ErrMalformed, "app id has a character"},
		{"app not in ASCII", pair("äpp", "s3cret"), Credential{}, ErrMalformed, "app id has a character"},
		{"token with a space", pair("acme", "s3 cret"), Credential{}, ErrMalformed, "token has a character"},
		{"token with a control character", pair("acme", "s3\x00cret"), Credential{}, ErrMalformed, "token has a character"},
		{"token not in ASCII", pair("acme", "s3crét"), Credential{}, ErrMalformed, "token has a character"},
		{"two apps", given{"app": {"acme", "evil"}, "token": {"s3cret"}}, Credential{}, ErrMalformed, "more than once"},
		{"the same token twice", given{"app": {"acme"}, "token": {"s3cret", "s3cret"}}, Credential{}, ErrMalformed, "more than once"},
		{"two authorizations", given{"authorization": {"Bearer acme.s3cret", "Bearer acme.s3cret"}}, Credential{}, ErrMalformed, "more than once"},
		{"both forms", given{"authorization": {"Bearer acme.s3cret"}, "app": {"acme"}, "token": {"s3cret"}}, Credential{}, ErrMalformed, "not both"},
		{"both forms, one broken", given{"authorization": {"Digest x"}, "token": {""}}, Credential{}, ErrMalformed, "not both"},
		{"empty authorization", one("authorization", ""), Credential{}, ErrMalformed, "scheme"},
		{"another scheme", one("authorization", "Digest acme.s3cret"), Credential{}, ErrMalformed, "scheme"},
		{"no scheme", one("authorization", "acme.s3cret"), Credential{}, ErrMalformed, "scheme"},
		{"bearer alone", one("authorization", "Bearer"), Credential{}, ErrMalformed, "Bearer <app>.<token>"},
		{"bearer without a dot", one("authorization", "Bearer s3cret"), Credential{}, ErrMalformed, "Bearer <app>.<token>"},
		{"bearer without an app", one("authorization", "Bearer .s3cret"), Credential{}, ErrMalformed, "app id is empty"},
		{"bearer without a token", one("authorization", "Bearer acme."), Credential{}, ErrMalformed, "token is empty"},
		{"bearer with two spaces", one("authorization", "Bearer  acme.s3cret"), Credential{}, ErrMalformed, "app id has a character"},
		{"basic alone", one("authorization", "Basic "), Credential{}, ErrMalformed, "base64 of"},
		{"basic, not base64", one("authorization", "Basic s3cret!"), Credential{}, ErrMalformed, "not base64"},
		{"basic with a line break", one("authorization", basic("acme:s3cret")+"\n"), Credential{}, ErrMalformed, "not base64"},
		{"basic without padding", one("authorization", strings.TrimRight(basic("acme:s3cre"), "=")), Credential{}, ErrMalformed, "not base64"},
		{"basic with stray bits", one("authorization", "Basic YWNtZTpzM2NyZX=="), Credential{}, ErrMalformed, "not base64"},
		{"basic without a colon", one("authorization", basic("acme")), Credential{}, ErrMalformed, "base64 of"},
		{"basic, too long", one("authorization", basic(app64+":"+token256+"!!!")), Credential{}, ErrMalformed, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overHTTP := given{}
			for name, values := range tc.in {
				if name != "authorization" {
					name = "x-" + name
				}
				overHTTP[name] = values
			}
			for way, parse := range map[string]func() (Credential, error){"metadata": tc.in.metadata, "http": overHTTP.http} {
				got, err := parse()
				if got != tc.want || !errors.Is(err, tc.err) {
					t.Errorf("%s: got app %q, %v; want app %q, %v", way, got.App, err, tc.want.App, tc.err)
				}
				if tc.err == nil {
					continue
				}
				if !strings.Contains(err.Error(), tc.text) || PublicText(err) == "" {
					t.Errorf("%s: the error is %q, want %q in it, and a public text", way, err, tc.text)
				}
				for _, secret := range []string{"s3", "acme", "cret"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s: the error %q repeats what was given", way, err)
					}
				}
			}
		})
	}
}

// Each way in has its own names: the other's are not read.
func TestCredentialNames(t *testing.T) {
	if _, err := (given{"app": {"a"}, "token": {"t"}}).http(); !errors.Is(err, ErrMissing) {
		t.Errorf("app and token over HTTP: %v, want %v", err, ErrMissing)
	}
	if _, err := (given{"x-app": {"a"}, "x-token": {"t"}}).metadata(); !errors.Is(err, ErrMissing) {
		t.Errorf("x-app and x-token in metadata: %v, want %v", err, ErrMissing)
	}
	for _, name := range CredentialHeaders() {
		if name != strings.ToLower(name) {
			t.Errorf("%s is not in lower case", name)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	h := http.Header{"Authorization": {"Bearer acme.s3cret"}}
	md := metadata.MD{"app": {"acme"}, "token": {"s3cret"}}
	if n := testing.AllocsPerRun(100, func() {
		_, _ = CredentialFromHTTP(h)
		_, _ = CredentialFromMetadata(md)
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// What is accepted can be written again in every form, and reads the same.
func FuzzCredential(f *testing.F) {
	f.Add("Bearer acme.s3cret", "", "")
	f.Add(basic("acme:s3cret"), "", "")
	f.Add("", "acme", "s3cret")
	f.Add("Bearer a.b", "a", "b")
	f.Add("Basic ====", "", "")
	f.Fuzz(func(t *testing.T, authorization, app, token string) {
		in := given{}
		for name, v := range map[string]string{"authorization": authorization, "app": app, "token": token} {
			if v != "" {
				in[name] = []string{v}
			}
		}
		c, err := in.metadata()
		if err != nil {
			if !errors.Is(err, ErrMissing) && !errors.Is(err, ErrMalformed) || c != (Credential{}) {
				t.Fatalf("refused with %v and app %q", err, c.App)
			}
			return
		}
		if tenant.AppFault(c.App) != "" || tenant.TokenFault(c.Token) != "" {
			t.Fatalf("accepted a credential out of bounds: app %q", c.App)
		}
		for _, again := range []given{
			{"authorization": {"Bearer " + c.App + "." + c.Token}},
			{"authorization": {basic(c.App + ":" + c.Token)}},
			{"app": {c.App}, "token": {c.Token}},
		} {
			if got, err := again.metadata(); got != c || err != nil {
				t.Errorf("written again it reads app %q, %v; want app %q", got.App, err, c.App)
			}
		}
	})
}

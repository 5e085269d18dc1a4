package admin_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/admin"
	"github.com/rpcgate/rpcgate/config"
)

func newOperators(t *testing.T, audit *admin.Audit, all ...config.Operator) *admin.Operators {
	t.Helper()
	o, err := admin.NewOperators(all, audit)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func newAudit(t *testing.T) (audit *admin.Audit, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "audit.jsonl")
	audit, err := admin.NewAudit(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return audit, file
}

func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	writer, writerHash := admin.NewOperatorToken()
	reader, readerHash := admin.NewOperatorToken()
	audit, _ := newAudit(t)
	o := newOperators(t, audit,
		config.Operator{Name: "writer", Role: "write", TokenHash: config.Secret(writerHash)},
		config.Operator{Name: "reader", Role: "read", TokenHash: config.Secret(strings.ToUpper(readerHash))},
		config.Operator{Name: "no role", Certificate: "plain"},
		config.Operator{Name: "by mail", Role: "write", Certificate: "ben@example.com"},
		config.Operator{Name: "by uri", Role: "write", Certificate: "spiffe://a/b"},
	)
	cert := func(cn string) *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: cn}} }
	for name, tc := range map[string]struct {
		r      admin.Request
		who    string
		reason string
	}{
		"writer":                                 {admin.Request{Token: writer}, "writer", ""},
		"reader reads":                           {admin.Request{Token: reader, Reads: true}, "reader", ""},
		"reader writes":                          {admin.Request{Token: reader}, "", "OPERATOR_READS_ONLY"},
		"reader verifies":                        {admin.Request{Token: reader, Method: "rpcgate.admin.v1.TokenService/VerifyToken"}, "reader", ""},
		"no role is read":                        {admin.Request{Certificate: cert("plain")}, "", "OPERATOR_READS_ONLY"},
		"no role reads":                          {admin.Request{Certificate: cert("plain"), Reads: true}, "no role", ""},
		"mail":                                   {admin.Request{Certificate: &x509.Certificate{EmailAddresses: []string{"ben@example.com"}}}, "by mail", ""},
		"uri":                                    {admin.Request{Certificate: &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "a", Path: "/b"}}}}, "by uri", ""},
		"nobody's certificate":                   {admin.Request{Certificate: cert("writer")}, "", "OPERATOR_UNKNOWN"},
		"a certificate without name":             {admin.Request{Certificate: cert("")}, "", "OPERATOR_UNKNOWN"},
		"nothing":                                {admin.Request{}, "", "OPERATOR_MISSING"},
		"a wrong token":                          {admin.Request{Token: writer[:len(writer)-1]}, "", "OPERATOR_UNKNOWN"},
		"the hash itself":                        {admin.Request{Token: writerHash}, "", "OPERATOR_UNKNOWN"},
		"a long token":                           {admin.Request{Token: strings.Repeat("x", 1<<20)}, "", "OPERATOR_UNKNOWN"},
		"a wrong token with a right certificate": {admin.Request{Token: "x", Certificate: cert("plain"), Reads: true}, "", "OPERATOR_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, err := o.Admit(t.Context(), tc.r)
			if reason(err) != tc.reason {
				t.Fatalf("%v, want %q", err, tc.reason)
			}
			if err == nil && o.Name(ctx) != tc.who {
				t.Errorf("admitted %q, want %q", o.Name(ctx), tc.who)
			}
		})
	}
}

// Whoever fails on and on fills no log, and keeps nobody out.
func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	token, hash := admin.NewOperatorToken()
	audit, file := newAudit(t)
	o := newOperators(t, audit, config.Operator{Name: "ann", Role: "write", TokenHash: config.Secret(hash)})
	var last error
	for range 1000 {
		_, last = o.Admit(t.Context(), admin.Request{Token: "guess", From: "192.0.2.1"})
	}
	if status.Code(last) != codes.ResourceExhausted || reason(last) != "OPERATOR_FAILS_OFTEN" {
		t.Errorf("the thousandth attempt: %v", last)
	}
	if _, err := o.Admit(t.Context(), admin.Request{Token: token, From: "192.0.2.1"}); err != nil {
		t.Errorf("a right token: %v", err)
	}
	if _, err := o.Admit(t.Context(), admin.Request{Token: "guess", From: "192.0.2.2"}); reason(err) != "OPERATOR_UNKNOWN" {
		t.Errorf("from elsewhere: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n < 20 || n > 60 {
		t.Errorf("%d lines", n)
	}
}

// Each entry is one line, whatever is in it, and can be read again.
func TestAuditLinesCannotBeForged(t *testing.T) {
	t.Parallel()
	audit, file := newAudit(t)
	evil := "x\n{\"operator\":\"ann\"}\r\x1b[2J\u2028" + strings.Repeat("y", 10_000)
	audit.Write(admin.Entry{Operator: admin.Operator{Name: evil[:40], From: "cli"}, Method: evil, App: "acme", Fields: []string{evil[:60]}, Result: "OK"})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(text, []byte("\n")) != 1 || bytes.ContainsAny(text, "\r\x1b\u2028") || len(text) > 2000 {
		t.Errorf("%q", text)
	}
	var e admin.Entry
	if err := json.Unmarshal(text, &e); err != nil || e.Operator.Name != evil[:40] || e.App != "acme" || e.Time.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}

	// To the log, it is the handler that escapes.
	for _, handler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var out bytes.Buffer
		toLog, err := admin.NewAudit("", slog.New(handler(&out)))
		if err != nil {
			t.Fatal(err)
		}
		toLog.Write(admin.Entry{Operator: admin.Operator{Name: "a\nb"}, Method: evil, Fields: []string{"a\nb"}, Result: "OK"})
		if bytes.Count(out.Bytes(), []byte("\n")) != 1 || !bytes.Contains(out.Bytes(), []byte("audit")) {
			t.Errorf("%q", out.String())
		}
	}
}

func TestOperatorToken(t *testing.T) {
	t.Parallel()
	a, hash := admin.NewOperatorToken()
	b, _ := admin.NewOperatorToken()
	if a == b || len(a) != 58 || hash != admin.HashOperatorToken(a) || len(hash) != 64 {
		t.Errorf("%q %q", a, hash)
	}
	if _, err := admin.NewOperators([]config.Operator{{Name: "x", TokenHash: "abc"}}, nil); err == nil {
		t.Error("a hash that is none was taken")
	}
}

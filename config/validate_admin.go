package config

import (
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxOperatorName bounds an operator's name, in bytes.
const maxOperatorName = 100

func (v *validator) admin(a *Admin, section string) {
	v.serverTLS(a.TLS, section+".tls")
	for i := range a.Operators {
		v.operator(a, i, indexPath(section+".operators", i))
	}
}

func (v *validator) operator(a *Admin, i int, section string) {
	o, before := &a.Operators[i], a.Operators[:i]
	switch {
	case o.Name == "":
		v.missing(section, "needs name")
	case len(o.Name) > maxOperatorName || strings.ContainsFunc(o.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		v.fault(section+".name", "must be up to %d printable bytes", maxOperatorName)
	case slices.ContainsFunc(before, func(p Operator) bool { return p.Name == o.Name }):
		v.fault(section+".name", "%s stands in the list already", v.show(section+".name", o.Name))
	}
	if o.TokenHash == "" && o.TokenHashFile == "" && o.Certificate == "" {
		v.missing(section, "needs token_hash, token_hash_file or certificate")
	}
	v.secretRead(o.TokenHash, o.TokenHashFile, section+".token_hash")
	if o.TokenHash != "" {
		key := section + ".token_hash"
		if o.TokenHashFile != "" {
			key += "_file"
		}
		if hash, err := hex.DecodeString(o.TokenHash.Reveal()); err != nil || len(hash) != 32 {
			v.fault(key, "is no SHA-256 in hex; `gateway operator token` makes a token and prints its hash")
		} else if slices.ContainsFunc(before, func(p Operator) bool { return strings.EqualFold(p.TokenHash.Reveal(), o.TokenHash.Reveal()) }) {
			v.fault(key, "is another operator's; each needs a token of his own, or the audit log could not tell them apart")
		}
	}
	if o.Certificate == "" {
		return
	}
	key := section + ".certificate"
	if a.TLS == nil || a.TLS.ClientCAFile == "" {
		v.fault(key, "needs admin.tls.client_ca_file: nobody vouches for certificates")
	}
	if slices.ContainsFunc(before, func(p Operator) bool { return p.Certificate == o.Certificate }) {
		v.fault(key, "%s is another operator's", v.show(key, o.Certificate))
	}
}

// warnAdmin tells what is odd about the admin port.
func (v *validator) warnAdmin(a *Admin, section string, now time.Time) {
	v.certificate(a.TLS, section+".tls", now)
	if host, _, err := net.SplitHostPort(a.Address); err == nil && !isLoopback(host) {
		switch {
		case len(a.Operators) == 0:
			v.fault(section+".address", "the admin port asks for no credential and is open to other machines: keep it on a private network")
		case a.TLS == nil:
			v.fault(section+".address", "operators' tokens come in clear text from other machines: set admin.tls, or keep it on a private network")
		}
	}
	if a.AuditLog != "" && len(a.Operators) == 0 {
		v.fault(section+".audit_log", "does nothing: without admin.operators there is nothing that is written to it")
	}
	hasCertificate := func(o Operator) bool { return o.Certificate != "" }
	if a.TLS != nil && a.TLS.ClientCAFile != "" && !slices.ContainsFunc(a.Operators, hasCertificate) {
		v.fault(section+".tls.client_ca_file", "does nothing: no operator has a certificate")
	}
}

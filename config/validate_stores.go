package config

import (
	"slices"
	"strings"
	"unicode"
)

func (v *validator) redis(c *Config) {
	r := c.Redis
	if len(r.Addresses) == 0 && c.NeedsRedis() {
		v.missing("redis", "needs addresses: calls need a credential, and Redis holds the tokens")
	}
	v.addresses(r.Addresses, "redis.addresses", dialAddress)
	switch r.Mode {
	case "single":
		if len(r.Addresses) > 1 {
			v.fault("redis.addresses", "mode single takes one address; set mode to sentinel or cluster for more")
		}
	case "sentinel":
		if r.MasterName == "" {
			v.missing("redis", "mode sentinel needs master_name")
		}
	case "cluster":
		if r.DB != 0 {
			v.fault("redis.db", "must be 0 in mode cluster")
		}
	}
	if r.Mode != "sentinel" {
		for _, f := range []struct {
			key string
			set bool
		}{
			{"master_name", r.MasterName != ""},
			{"sentinel_username", r.SentinelUsername != ""},
			{"sentinel_password", r.SentinelPassword != "" && r.SentinelPasswordFile == ""},
			{"sentinel_password_file", r.SentinelPasswordFile != ""},
		} {
			if f.set {
				v.fault("redis."+f.key, "is for mode sentinel only")
			}
		}
	}
	v.secretRead(r.Password, r.PasswordFile, "redis.password")
	v.secretRead(r.SentinelPassword, r.SentinelPasswordFile, "redis.sentinel_password")
	v.clientTLS(r.TLS, "redis.tls")
}

// NeedsRedis tells whether some call may need a credential.
func (c *Config) NeedsRedis() bool {
	return slices.ContainsFunc(c.Backends, func(b Backend) bool { return b.Auth == "required" }) ||
		slices.ContainsFunc(c.Routes, func(r Route) bool { return r.Auth == "required" })
}

// secretRead finds a secret whose file nobody has read: only Load and Parse do.
func (v *validator) secretRead(secret Secret, file, key string) {
	if secret == "" && file != "" {
		v.fault(key+"_file", "has not been read; only Load and Parse do that")
	}
}

func (v *validator) etcd(c *Config) {
	e := c.Etcd
	needed := c.Register != nil || slices.ContainsFunc(c.Backends, func(b Backend) bool { return b.Etcd != nil })
	if len(e.Endpoints) == 0 && needed {
		v.missing("etcd", "needs endpoints: a backend or register names an etcd key")
	}
	v.addresses(e.Endpoints, "etcd.endpoints", etcdEndpoint)
	if e.Username == "" && (e.Password != "" || e.PasswordFile != "") {
		v.missing("etcd", "has a password, so it needs username too")
	}
	v.secretRead(e.Password, e.PasswordFile, "etcd.password")
	v.clientTLS(e.TLS, "etcd.tls")
}

// addresses checks each of a list, and that none stands there twice.
func (v *validator) addresses(list []string, key string, check func(string) string) {
	for i, address := range list {
		at := indexPath(key, i)
		if why := check(address); why != "" {
			v.fault(at, "%s %s", v.showAddress(at, address), why)
		} else if slices.Contains(list[:i], address) {
			v.fault(at, "%s stands in the list already", v.showAddress(at, address))
		}
	}
}

// etcdKey checks the key that instances register under, of a section.
func (v *validator) etcdKey(key, section string) {
	at := section + ".key"
	switch {
	case key == "":
		v.missing(section, "needs key")
	case strings.HasSuffix(key, "/"):
		v.fault(at, "%s ends with a slash; the slash before the lease id is put there by itself", v.show(at, key))
	case strings.ContainsFunc(key, isBlank):
		v.fault(at, "%s has a blank or a control character in it", v.show(at, key))
	}
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (v *validator) auth(c *Config) {
	a := c.Auth
	switch {
	case a.KeyPrefix == "":
		v.missing("auth.key_prefix", "is empty; the keys need a name of their own in Redis")
	case strings.ContainsFunc(a.KeyPrefix, isBlank) || strings.ContainsAny(a.KeyPrefix, "{}"):
		v.fault("auth.key_prefix", "%s has a blank or a brace in it; braces decide the slot of a key in a cluster", v.show("auth.key_prefix", a.KeyPrefix))
	}
	if fault := nodeFault(a.Node); fault != "" {
		v.fault("auth.node", "%s %s", v.show("auth.node", a.Node), fault)
	}
	if a.GoZero == nil {
		return
	}
	if a.GoZero.Key == "" {
		v.missing("auth.gozero", "needs key")
	} else if strings.ContainsFunc(a.GoZero.Key, isBlank) {
		v.fault("auth.gozero.key", "%s has a blank or a control character in it", v.show("auth.gozero.key", a.GoZero.Key))
	}
}

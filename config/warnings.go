package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Warnings finds what is allowed but probably not meant, or to be known, in a
// valid configuration; now is for certificates that have ended.
func (c *Config) Warnings(now time.Time) Faults {
	v := &validator{source: c.source}
	v.warnAdmin(&c.Admin, "admin", now)
	for i, block := range c.HTTP.TrustedProxies {
		if p, err := netip.ParsePrefix(block); err == nil && p.Bits() == 0 {
			v.fault(indexPath("http.trusted_proxies", i), "every caller is a trusted proxy, and may claim any address")
		}
	}
	v.warnCORS(&c.HTTP.CORS, "http.cors")
	if c.HTTP.OpenAPI && !slices.Contains(c.HTTP.Protocols, "json") {
		v.fault("http.openapi", "does nothing here: json, which the document describes, is not among http.protocols")
	}
	v.warnOrigins(c.HTTP.Streams.AllowedOrigins, "http.streams.allowed_origins")
	if c.Auth.RevokeInFlight == "cancel" && !slices.ContainsFunc(c.Backends, hasOwnConns) {
		v.fault("auth.revoke_in_flight", "cancel does nothing: no backend has pool.key credential")
	}
	v.certificate(c.HTTP.TLS, "http.tls", now)
	v.certificate(c.GRPC.TLS, "grpc.tls", now)
	v.insecure(c.Redis.TLS, "redis.tls")
	v.insecure(c.Etcd.TLS, "etcd.tls")
	v.warnDiscovery(c)
	v.warnOverload(&c.Overload, "overload")
	v.warnLimits(&c.Limits.App, "limits.app")
	v.warnLimits(&c.Limits.Token, "limits.token")
	for i := range c.Backends {
		b, section := &c.Backends[i], indexPath("backends", i)
		v.insecure(b.TLS, section+".tls")
		v.warnBalancer(b, section)
		v.warnEjection(b, section)
		v.warnRetry(b, section+".retry")
		v.warnBreaker(&b.Breaker, section+".breaker")
		v.warnConcurrency(&b.Concurrency, section+".concurrency")
		if b.Auth == "none" {
			v.fault(section+".auth", "every route of this backend is open to everybody")
		}
	}
	for i := range c.Routes {
		if c.Routes[i].LogBodies {
			v.fault(indexPath("routes", i)+".log_bodies", "bodies in the log may hold personal data")
		}
		v.warnLimits(&c.Routes[i].Limits, indexPath("routes", i)+".limits")
		v.warnRoutePolicies(c, &c.Routes[i], indexPath("routes", i))
	}
	return v.faults.sorted()
}

func (v *validator) warnCORS(c *CORS, section string) {
	v.warnOrigins(c.AllowedOrigins, section+".allowed_origins")
	if len(c.AllowedOrigins) == 0 && (c.AllowCredentials || len(c.AllowedHeaders) > 0 || len(c.ExposedHeaders) > 0) {
		v.fault(section, "does nothing without allowed_origins: no page of another origin may call")
	}
	for i, method := range c.AllowedMethods {
		if upper := strings.ToUpper(method); upper != method {
			key := indexPath(section+".allowed_methods", i)
			v.fault(key, "%s is another method than %s: they are told apart by case", v.show(key, method), upper)
		}
	}
}

func (v *validator) warnOrigins(origins []string, section string) {
	for i, origin := range origins {
		key := indexPath(section, i)
		switch {
		case isOpenOrigin(origin):
			v.fault(key, "the pages of any site may call")
		case isLooseOrigin(origin):
			v.fault(key, "%s is open to any site: anybody can have a host whose name ends in what * stands for", v.show(key, origin))
		}
	}
}

func hasOwnConns(b Backend) bool { return b.Pool.Key == "credential" }

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (v *validator) insecure(t *ClientTLS, section string) {
	if t != nil && t.InsecureSkipVerify {
		v.fault(section+".insecure_skip_verify", "any certificate is accepted, also that of somebody in between")
	}
}

func (v *validator) certificate(t *ServerTLS, section string, now time.Time) {
	if t == nil {
		return
	}
	end, certErr, keyErr := readKeyPair(t.CertFile, t.KeyFile)
	if certErr == nil && keyErr == nil && now.After(end) {
		v.fault(section+".cert_file", "the certificate ended on %s", end.Format(time.DateOnly))
	}
}

package config

import (
	"net"
	"net/netip"
	"time"
)

// listener is one of the ports, for what is to be said of all of them.
type listener struct{ section, address string }

func (v *validator) listeners(c *Config) {
	all := []listener{{"http", c.HTTP.Address}, {"grpc", c.GRPC.Address}, {"admin", c.Admin.Address}}
	for i, l := range all {
		key := l.section + ".address"
		if l.address == Off {
			continue
		}
		if why := listenAddress(l.address); why != "" {
			v.fault(key, "%s %s, or %s for none", v.showAddress(key, l.address), why, Off)
			continue
		}
		for _, before := range all[:i] {
			if collide(before.address, l.address) {
				v.fault(key, "is the port of %s.address too", before.section)
			}
		}
	}
	if c.HTTP.Address == Off && c.GRPC.Address == Off {
		v.fault("http.address", "both http.address and grpc.address are off: nobody could call")
	}
	v.serverTLS(c.HTTP.TLS, "http.tls")
	v.serverTLS(c.GRPC.TLS, "grpc.tls")
	v.admin(&c.Admin, "admin")
	for i, block := range c.HTTP.TrustedProxies {
		key := indexPath("http.trusted_proxies", i)
		if !isBlock(block) {
			v.fault(key, "%s is neither an IP address nor a CIDR block like 10.0.0.0/8", v.show(key, block))
		}
	}
}

// collide tells whether two addresses cannot both be listened on.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || isWildcard(hostA) || isWildcard(hostB)
}

// isWildcard tells whether a host means all of the machine's addresses.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (v *validator) serverTLS(t *ServerTLS, section string) {
	if t == nil {
		return
	}
	if t.CertFile == "" {
		v.missing(section, "needs cert_file")
	}
	if t.KeyFile == "" {
		v.missing(section, "needs key_file")
	}
	v.keyPair(t.CertFile, t.KeyFile, section)
	v.authorities(t.ClientCAFile, section+".client_ca_file")
}

func (v *validator) clientTLS(t *ClientTLS, section string) {
	if t == nil {
		return
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		v.missing(section, "has cert_file, so it needs key_file too")
	case t.CertFile == "" && t.KeyFile != "":
		v.missing(section, "has key_file, so it needs cert_file too")
	}
	v.keyPair(t.CertFile, t.KeyFile, section)
	v.authorities(t.CAFile, section+".ca_file")
	if key := section + ".server_name"; t.ServerName != "" && !isHost(t.ServerName) {
		v.fault(key, "%s is neither a host name nor an IP address", v.show(key, t.ServerName))
	}
	if t.InsecureSkipVerify && t.CAFile != "" {
		v.fault(section+".insecure_skip_verify", "accepts any certificate, so that ca_file would mean nothing; keep one of them")
	}
}

// keyPair checks the files of a certificate and its key, where both are named.
func (v *validator) keyPair(certFile, keyFile, section string) {
	if certFile == "" || keyFile == "" {
		return
	}
	_, certErr, keyErr := readKeyPair(certFile, keyFile)
	if key := section + ".cert_file"; certErr != nil {
		v.fault(key, "%s: %v", v.show(key, certFile), certErr)
	}
	if key := section + ".key_file"; keyErr != nil {
		v.fault(key, "%s: %v", v.show(key, keyFile), keyErr)
	}
}

func (v *validator) authorities(file, key string) {
	if file == "" {
		return
	}
	if err := checkCertificates(file); err != nil {
		v.fault(key, "%s: %v", v.show(key, file), err)
	}
}

func (v *validator) register(c *Config) {
	r := c.Register
	if r == nil {
		return
	}
	v.etcdKey(r.Key, "register")
	if c.GRPC.Address == Off {
		v.fault("register", "announces the gRPC port, but grpc.address is off")
	}
	if r.TTL%time.Second != 0 {
		v.fault("register.ttl", "etcd counts leases in whole seconds")
	}
	if r.Advertise == "" {
		return
	}
	const key = "register.advertise"
	if why := dialAddress(r.Advertise); why != "" {
		v.fault(key, "%s %s", v.showAddress(key, r.Advertise), why)
	} else if host, _, _ := net.SplitHostPort(r.Advertise); isWildcard(host) {
		v.fault(key, "%s is nothing that clients could dial", v.showAddress(key, r.Advertise))
	}
}

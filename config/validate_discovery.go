package config

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

func (v *validator) consul(c *Config) {
	needed := slices.ContainsFunc(c.Backends, func(b Backend) bool { return b.Consul != nil })
	if c.Consul.Address == "" && needed {
		v.missing("consul", "needs address: a backend names a Consul service")
	}
	if key := "consul.address"; c.Consul.Address != "" {
		if why := dialAddress(c.Consul.Address); why != "" {
			v.fault(key, "%s %s", v.showAddress(key, c.Consul.Address), why)
		}
	}
	if key := "consul.datacenter"; strings.ContainsFunc(c.Consul.Datacenter, isBlank) {
		v.fault(key, "%s has a blank or a control character in it", v.show(key, c.Consul.Datacenter))
	}
	if strings.ContainsFunc(c.Consul.Token.Reveal(), isBlank) {
		v.fault("consul.token", "has a blank or a control character in it")
	}
	v.secretRead(c.Consul.Token, c.Consul.TokenFile, "consul.token")
	v.clientTLS(c.Consul.TLS, "consul.tls")
}

// kubernetes does not look for the cluster around: a configuration is checked
// elsewhere than it is used, and so are the files that only a pod has.
func (v *validator) kubernetes(k *Kubernetes) {
	v.clientTLS(k.TLS, "kubernetes.tls")
	key := "kubernetes.address"
	if k.Address == "" {
		return
	}
	shown := v.showAddress(key, k.Address)
	u, err := url.Parse(k.Address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https":
		v.fault(key, "%s is not a URL that begins with https:// or http://", shown)
	case u.User != nil:
		v.fault(key, "%s has a user in it; set token_file, or a certificate in tls, instead", shown)
	case u.Hostname() == "" || !isHost(u.Hostname()) || u.Port() != "" && !isPort(u.Port(), 1):
		v.fault(key, "%s has no host and port to connect to", shown)
	case u.RawQuery != "" || u.Fragment != "":
		v.fault(key, "%s has something behind the path", shown)
	case u.Scheme == "http" && k.TokenFile != "":
		v.fault(key, "%s would have the token go in clear text", shown)
	case u.Scheme == "http" && k.TLS != nil:
		v.fault("kubernetes.tls", "does nothing: the address begins with http://")
	}
}

// whereFound checks what a backend says of its place in Consul or Kubernetes.
func (v *validator) whereFound(b *Backend, section string) {
	if b.Consul != nil {
		v.consulService(b.Consul, section+".consul")
	}
	if b.Kubernetes != nil {
		v.kubernetesService(b.Kubernetes, section+".kubernetes")
	}
}

func (v *validator) consulService(c *BackendConsul, section string) {
	switch key := section + ".service"; {
	case c.Service == "":
		v.missing(section, "needs service")
	case strings.ContainsFunc(c.Service, isBlank) || strings.Contains(c.Service, "/"):
		v.fault(key, "%s has a blank, a slash or a control character in it", v.show(key, c.Service))
	}
	if key := section + ".tag"; strings.ContainsFunc(c.Tag, isBlank) {
		v.fault(key, "%s has a blank or a control character in it", v.show(key, c.Tag))
	}
}

func (v *validator) kubernetesService(k *BackendKubernetes, section string) {
	const label = "%s is not the name of a %s: up to 63 lower-case letters, digits and dashes, the first and last no dash"
	switch key := section + ".service"; {
	case k.Service == "":
		v.missing(section, "needs service")
	case !isDNSLabel(k.Service):
		v.fault(key, label, v.show(key, k.Service), "service")
	}
	if key := section + ".namespace"; k.Namespace != "" && !isDNSLabel(k.Namespace) {
		v.fault(key, label, v.show(key, k.Namespace), "namespace")
	}
	if key := section + ".port"; k.Port != "" && !isServicePort(k.Port) {
		v.fault(key, "%s is neither the name nor the number of a port", v.show(key, k.Port))
	}
}

// isDNSLabel tells whether a text is a label as RFC 1123 has it, in lower case,
// as the names of Kubernetes' services, namespaces and ports are.
func isDNSLabel(text string) bool {
	if text == "" || len(text) > 63 || strings.HasPrefix(text, "-") || strings.HasSuffix(text, "-") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// isServicePort tells whether a text is the number of a port, or its name, which
// has a letter in it.
func isServicePort(text string) bool {
	if strings.Trim(text, "0123456789") == "" {
		return isPort(text, 1)
	}
	return isDNSLabel(text)
}

// warnDiscovery finds secrets that others could read on the way.
func (v *validator) warnDiscovery(c *Config) {
	v.insecure(c.Consul.TLS, "consul.tls")
	v.insecure(c.Kubernetes.TLS, "kubernetes.tls")
	if host, _, err := net.SplitHostPort(c.Consul.Address); err == nil && c.Consul.TLS == nil && c.Consul.Token != "" && !isLoopback(host) {
		v.fault("consul.address", "the token goes to another machine in clear text: set consul.tls")
	}
}

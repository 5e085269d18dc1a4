package config

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Off is the address of a listener that is not wanted.
const Off = "off"

// listenAddress says what is wrong with an address to listen on; empty: nothing.
func listenAddress(address string) string {
	host, port, why := splitAddress(address)
	switch {
	case why != "":
		return why
	case host != "" && !isHost(host):
		return "has a host that is neither a name nor an IP address"
	case !isPort(port, 0):
		return "has a port that is not a number from 0 to 65535"
	}
	return ""
}

// dialAddress says what is wrong with an address to connect to; empty: nothing.
func dialAddress(address string) string {
	host, port, why := splitAddress(address)
	switch {
	case why != "":
		return why
	case host == "":
		return "has no host; write host:port"
	case !isHost(host):
		return "has a host that is neither a name nor an IP address"
	case !isPort(port, 1):
		return "has a port that is not a number from 1 to 65535"
	}
	return ""
}

func splitAddress(address string) (host, port, why string) {
	if address == "" {
		return "", "", "is empty; write host:port"
	}
	if strings.Contains(address, "://") {
		return "", "", "is a URL; write host:port alone"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", "is not host:port (an IPv6 host goes in brackets: [::1]:8080)"
	}
	return host, port, ""
}

func isPort(port string, least int) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && int(n) >= least
}

// isHost tells whether a text is an IP address or looks like a host name.
// Underscores are no part of those, but of the names of containers.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if len(host) > 253 || strings.Contains(host, ":") {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		for _, r := range label {
			if r != '-' && r != '_' && !isAlphanumeric(r) {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// etcdEndpoint says what is wrong with the address of an etcd member; empty: nothing.
func etcdEndpoint(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		return dialAddress(endpoint)
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "is neither host:port nor a URL"
	case u.User != nil:
		return "has a user in it; set username and password instead"
	case u.Scheme == "unix" || u.Scheme == "unixs":
		return ""
	case u.Scheme != "http" && u.Scheme != "https":
		return "has a scheme that is none of http, https, unix, unixs"
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "has something behind the port"
	}
	return dialAddress(u.Host)
}

// grpcTarget says what is wrong with a gRPC target; empty: nothing.
func grpcTarget(target string) string {
	scheme, rest, _ := strings.Cut(target, ":")
	rest = strings.TrimPrefix(rest, "//")
	switch scheme {
	case "dns":
		authority, name, ok := strings.Cut(rest, "/")
		if !strings.HasPrefix(target, "dns://") {
			authority, name, ok = "", rest, true
		}
		if !ok || name == "" {
			return "names no host; write dns:///host:port"
		}
		if authority != "" && !isHost(authority) && dialAddress(authority) != "" {
			return "has a DNS server that is neither host nor host:port"
		}
		if !isHost(name) && dialAddress(name) != "" {
			return "names a host that is neither host nor host:port"
		}
	case "unix", "unix-abstract", "xds", "passthrough", "ipv4", "ipv6":
		if strings.Trim(rest, "/") == "" {
			return "names nothing behind its scheme"
		}
	case "etcd", "consul", "kubernetes":
		return "is for " + scheme + "; use the key " + scheme + " instead"
	default:
		if strings.Contains(target, "://") {
			return "has a scheme that is none of dns, unix, unix-abstract, xds, passthrough, ipv4, ipv6"
		}
		return dialAddress(target)
	}
	return ""
}

// withoutUserinfo replaces what stands before the last @ of an address, or
// between it and the scheme of a URL. A malformed one is why there is a fault,
// so it is not parsed: rather too much is replaced than too little.
func withoutUserinfo(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	scheme, _, ok := strings.Cut(address[:at], "://")
	if !ok || strings.ContainsFunc(scheme, func(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("+-.", r) }) {
		return "…" + address[at:]
	}
	return scheme + "://…" + address[at:]
}

// isBlock tells whether a text is an IP address or a CIDR block.
func isBlock(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(text)
	return err == nil
}

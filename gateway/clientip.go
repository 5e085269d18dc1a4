package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// trustedProxies says whose X-Forwarded-For is believed.
type trustedProxies []netip.Prefix

// parseTrustedProxies takes addresses and CIDR blocks.
func parseTrustedProxies(list []string) (trustedProxies, error) {
	out := make(trustedProxies, 0, len(list))
	for _, s := range list {
		if addr, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q is neither an address nor a CIDR block", s)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

func (t trustedProxies) contains(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, p := range t {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// clientIP returns the address a call came from and the X-Forwarded-For to
// send on. The peer's own address counts unless it is a trusted proxy; then
// the last address in its X-Forwarded-For that is not one, since everything
// left of that one the caller may have made up.
func (t trustedProxies) clientIP(remote string, forwarded []string) (ip, chain string) {
	host := hostOf(remote)
	if len(t) == 0 || len(forwarded) == 0 {
		return host, host
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !t.contains(addr) {
		return host, host
	}
	given := strings.Join(forwarded, ", ")
	if !validValue(given) {
		return host, host
	}
	hops := strings.Split(given, ",")
	ip = host
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		ip = hop.String()
		if !t.contains(hop) {
			break
		}
	}
	return ip, given + ", " + host
}

// hostOf takes the port off an address; what has none is returned as it is.
func hostOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

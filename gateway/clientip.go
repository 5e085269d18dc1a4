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

// unknownIP stands for the address of a caller of whom a trusted proxy does not
// say where it is. It must not be the proxy's: that is where tokens may be used
// from whose networks are the operator's own, and what all others' guesses would
// count for.
const unknownIP = "unknown"

// clientIP returns the address a call came from and the X-Forwarded-For to
// send on. The peer's own address counts unless it is a trusted proxy; then
// the last address in its X-Forwarded-For that is not one, since everything
// left of that one the caller may have made up. What is no address there gives
// [unknownIP].
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
	if strings.TrimSpace(given) == "" {
		return host, host
	}
	ip, chain = t.caller(given), host
	if validValue(given) {
		chain = given + ", " + host
	}
	return ip, chain
}

// caller is the last of the hops that is not a trusted proxy, or the first.
func (t trustedProxies) caller(hops string) (ip string) {
	for more := true; more; {
		last := strings.LastIndexByte(hops, ',')
		hop, err := parseHop(strings.TrimSpace(hops[last+1:]))
		if err != nil {
			return unknownIP
		}
		ip = hop.String()
		if more = last >= 0 && t.contains(hop); more {
			hops = hops[:last]
		}
	}
	return ip
}

// parseHop reads an address as proxies write it: some with a port, or in brackets.
func parseHop(text string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr, nil
	}
	if bare, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(bare, "]") {
		return netip.ParseAddr(strings.TrimSuffix(bare, "]"))
	}
	with, err := netip.ParseAddrPort(text)
	return with.Addr(), err
}

// hostOf takes the port off an address; what has none is returned as it is.
func hostOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

package discovery

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxAddress bounds an address; a DNS name has at most 253 bytes.
const maxAddress = 300

// checkAddress tells what keeps address from being host:port with a port
// number that can be dialled.
func checkAddress(address string) error {
	if len(address) > maxAddress {
		return fmt.Errorf("address of %d bytes is too long", len(address))
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not host:port", address)
	}
	if host == "" {
		return fmt.Errorf("address %q has no host", address)
	}
	if i := strings.IndexFunc(host, notInHost); i >= 0 {
		return fmt.Errorf("address %q has %q in its host", address, host[i:i+1])
	}
	if strings.Contains(host, ":") && net.ParseIP(stripZone(host)) == nil {
		return fmt.Errorf("address %q has a malformed IPv6 address", address)
	}
	return checkPort(port)
}

func checkPort(port string) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}

func notInHost(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".-_:%", r)
}

func stripZone(ip string) string {
	ip, _, _ = strings.Cut(ip, "%")
	return ip
}

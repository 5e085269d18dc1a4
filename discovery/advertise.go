package discovery

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// AdvertiseAddress returns the host:port that others shall dial to reach a
// server that listens on listen (host:port with the port bound, not 0).
// advertise, a flag or setting, wins; else a listen address with a host of its
// own; else, listening on a wildcard, the host is $POD_IP or this machine's
// first private address.
func AdvertiseAddress(listen, advertise string) (string, error) {
	s := surroundings{podIP: os.Getenv("POD_IP"), addresses: upAddresses}
	return s.advertise(listen, advertise)
}

// surroundings are what AdvertiseAddress asks of the machine.
type surroundings struct {
	podIP     string
	addresses func() ([]net.Addr, error)
}

func (s surroundings) advertise(listen, advertise string) (string, error) {
	if advertise != "" {
		if err := checkAddress(advertise); err != nil {
			return "", fmt.Errorf("advertised address: %w", err)
		}
		return advertise, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen address %q is not host:port", listen)
	}
	if err := checkPort(port); err != nil {
		return "", fmt.Errorf("listen address: %w", err)
	}
	if host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			return net.JoinHostPort(host, port), nil
		}
	}
	if s.podIP != "" {
		if net.ParseIP(s.podIP) == nil {
			return "", fmt.Errorf("POD_IP %q is not an IP address", s.podIP)
		}
		return net.JoinHostPort(s.podIP, port), nil
	}
	ip, err := s.firstPrivate()
	if err != nil {
		return "", fmt.Errorf("listening on %s: %w; name the address to advertise", listen, err)
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// firstPrivate prefers IPv4: a private IPv6 address beside it is often not routed.
func (s surroundings) firstPrivate() (net.IP, error) {
	addresses, err := s.addresses()
	if err != nil {
		return nil, fmt.Errorf("asking for this machine's addresses: %w", err)
	}
	var v6 net.IP
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsPrivate() {
			continue
		}
		if network.IP.To4() != nil {
			return network.IP, nil
		}
		if v6 == nil {
			v6 = network.IP
		}
	}
	if v6 == nil {
		return nil, errors.New("this machine has no private address")
	}
	return v6, nil
}

// upAddresses returns the addresses of the interfaces that are up, in the
// system's order.
func upAddresses() ([]net.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []net.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		all = append(all, addresses...)
	}
	return all, nil
}

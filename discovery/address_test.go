package discovery

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		address string
		fault   string // "" for a good one
	}{
		{"10.0.0.1:8080", ""},
		{"shop-1.shop.svc.cluster.local:8080", ""},
		{"under_score:1", ""},
		{"[::1]:65535", ""},
		{"[fe80::1%eth0]:80", ""},
		{"", "not host:port"},
		{"10.0.0.1", "not host:port"},
		{"::1:80", "not host:port"},
		{":8080", "no host"},
		{"10.0.0.1:", "not a number"},
		{"10.0.0.1:0", "not a number"},
		{"10.0.0.1:65536", "not a number"},
		{"10.0.0.1:+80", "not a number"},
		{"10.0.0.1:http", "not a number"},
		{"http://10.0.0.1:80", "not host:port"},
		{"a b:80", `has " "`},
		{"a\n:80", `has "\n"`},
		{"a/b:80", `has "/"`},
		{"[1:2]:80", "malformed IPv6"},
		{strings.Repeat("a", 300) + ":80", "too long"},
	} {
		err := checkAddress(tc.address)
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("checkAddress(%q) = %v, want %q", tc.address, err, tc.fault)
		}
	}
}

func TestAdvertise(t *testing.T) {
	t.Parallel()
	network := func(cidr string) net.Addr {
		ip, n, err := net.ParseCIDR(cidr)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		return n
	}
	machine := func(cidrs ...string) func() ([]net.Addr, error) {
		return func() ([]net.Addr, error) {
			var all []net.Addr
			for _, c := range cidrs {
				all = append(all, network(c))
			}
			return all, nil
		}
	}
	two := machine("fd00::5/64", "93.184.216.34/24", "10.1.2.3/8", "192.168.0.9/24")
	for _, tc := range []struct {
		name              string
		listen, advertise string
		podIP             string
		addresses         func() ([]net.Addr, error)
		want, fault       string
	}{
		{name: "flag wins", listen: ":80", advertise: "shop:90", podIP: "10.0.0.1", want: "shop:90"},
		{name: "faulty flag", listen: ":80", advertise: "shop", fault: "advertised address"},
		{name: "specific listen address", listen: "127.0.0.1:80", podIP: "10.0.0.1", want: "127.0.0.1:80"},
		{name: "listen on a name", listen: "localhost:80", podIP: "10.0.0.1", want: "localhost:80"},
		{name: "pod", listen: "0.0.0.0:80", podIP: "10.0.0.1", addresses: two, want: "10.0.0.1:80"},
		{name: "IPv6 pod", listen: "[::]:80", podIP: "fd00::1", want: "[fd00::1]:80"},
		{name: "faulty pod", listen: ":80", podIP: "pod", fault: "POD_IP"},
		{name: "first private", listen: ":80", addresses: two, want: "10.1.2.3:80"},
		{name: "only IPv6", listen: "[::]:80", addresses: machine("fd00::5/64"), want: "[fd00::5]:80"},
		{name: "only public", listen: ":80", addresses: machine("93.184.216.34/24"), fault: "no private address"},
		{name: "machine fails", listen: ":80", addresses: func() ([]net.Addr, error) { return nil, errors.New("denied") }, fault: "denied"},
		{name: "port 0", listen: ":0", podIP: "10.0.0.1", fault: "port"},
		{name: "no port", listen: "10.0.0.1", fault: "not host:port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := surroundings{tc.podIP, tc.addresses}.advertise(tc.listen, tc.advertise)
			if got != tc.want || (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.fault)
			}
		})
	}
}

func TestAdvertiseAddressOfThisMachine(t *testing.T) {
	t.Setenv("POD_IP", "10.9.8.7")
	got, err := AdvertiseAddress("[::]:80", "")
	if err != nil || got != "10.9.8.7:80" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := upAddresses(); err != nil {
		t.Error(err)
	}
}

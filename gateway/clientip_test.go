package gateway

import "testing"

func TestClientIP(t *testing.T) {
	for _, tc := range []struct {
		name      string
		trusted   []string
		remote    string
		forwarded []string
		ip, chain string
	}{
		{"nobody is trusted", nil, "10.0.0.1:5", []string{"1.1.1.1"}, "10.0.0.1", "10.0.0.1"},
		{"the peer is no proxy", []string{"10.0.0.0/8"}, "9.9.9.9:5", []string{"1.1.1.1"}, "9.9.9.9", "9.9.9.9"},
		{"one proxy", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"1.1.1.1"}, "1.1.1.1", "1.1.1.1, 10.0.0.1"},
		{"what is left of the caller is made up", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"6.6.6.6, 1.1.1.1, 10.0.0.2"}, "1.1.1.1", "6.6.6.6, 1.1.1.1, 10.0.0.2, 10.0.0.1"},
		{"several header lines", []string{"10.0.0.1"}, "10.0.0.1:5", []string{"6.6.6.6", "1.1.1.1"}, "1.1.1.1", "6.6.6.6, 1.1.1.1, 10.0.0.1"},
		{"all are proxies", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3", "10.0.0.3, 10.0.0.2, 10.0.0.1"},
		{"garbage ends the chain", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"x, 10.0.0.2"}, "unknown", "x, 10.0.0.2, 10.0.0.1"},
		{"bytes that metadata cannot carry", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"1.1.1.1\x01"}, "unknown", "10.0.0.1"},
		{"such bytes of the caller's", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"\x80, 1.1.1.1"}, "1.1.1.1", "10.0.0.1"},
		{"what the proxy does not know", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"1.1.1.1, unknown"}, "unknown", "1.1.1.1, unknown, 10.0.0.1"},
		{"an empty end", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"1.1.1.1,"}, "unknown", "1.1.1.1,, 10.0.0.1"},
		{"nothing is said", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{" "}, "10.0.0.1", "10.0.0.1"},
		{"a port", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"6.6.6.6, 1.1.1.1:80"}, "1.1.1.1", "6.6.6.6, 1.1.1.1:80, 10.0.0.1"},
		{"brackets", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"[2001:db8::1]"}, "2001:db8::1", "[2001:db8::1], 10.0.0.1"},
		{"brackets and a port", []string{"10.0.0.0/8"}, "10.0.0.1:5", []string{"[2001:db8::1]:80, 10.0.0.2:7"}, "2001:db8::1", "[2001:db8::1]:80, 10.0.0.2:7, 10.0.0.1"},
		{"mapped addresses", []string{"10.0.0.0/8"}, "[::ffff:10.0.0.1]:5", []string{"1.1.1.1"}, "1.1.1.1", "1.1.1.1, ::ffff:10.0.0.1"},
		{"a Unix socket", []string{"10.0.0.0/8"}, "@", []string{"1.1.1.1"}, "@", "@"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			trusted, err := parseTrustedProxies(tc.trusted)
			if err != nil {
				t.Fatal(err)
			}
			ip, chain := trusted.clientIP(tc.remote, tc.forwarded)
			if ip != tc.ip || chain != tc.chain {
				t.Errorf("got %q, %q; want %q, %q", ip, chain, tc.ip, tc.chain)
			}
		})
	}
	if _, err := parseTrustedProxies([]string{"10.0.0.0/99"}); err == nil {
		t.Error("a bad block was accepted")
	}
}

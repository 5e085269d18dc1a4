package discovery

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

func TestParseDNSTarget(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"dns:///shop:80":             "shop:80",
		"dns:shop:80":                "shop:80",
		"dns:///shop.internal":       "shop.internal:443",
		"dns://10.0.0.1/shop:80":     "shop:80",
		"dns://[::1]:53/shop:80":     "shop:80",
		"dns:///10.0.0.1:80":         "10.0.0.1:80",
		"dns:///[2001:db8::1]:80":    "[2001:db8::1]:80",
		"dns:///[2001:db8::1]":       "[2001:db8::1]:443",
		"dns:///2001:db8::1":         "[2001:db8::1]:443",
		"dns:///shop.internal.:8080": "shop.internal.:8080",
		"dns:///":                    "",
		"dns:///:80":                 "",
		"dns:///shop:0":              "",
		"dns:///shop:http":           "",
		"dns:///a b:80":              "",
		"dns:///shop:80:81":          "",
	} {
		host, port, err := parseDNSTarget(parseTarget(t, target))
		got := ""
		if err == nil {
			got = net.JoinHostPort(host, port)
		}
		if got != want {
			t.Errorf("%s is %q, %v; want %q", target, got, err, want)
		}
	}
}

func FuzzParseDNSTarget(f *testing.F) {
	for _, seed := range []string{"shop:80", "shop", "[::1]:80", "::1", ":", "[a]:1", "%31:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, b, err := builderOf("dns:///"+name, []resolver.Builder{DNSBuilder(config.DNS{}, slog.New(slog.DiscardHandler))})
		if err != nil || b.Scheme() != dnsScheme {
			return
		}
		parsed, _, _ := builderOf("dns:///"+name, []resolver.Builder{b})
		host, port, err := parseDNSTarget(parsed)
		if err != nil {
			return
		}
		if why := checkAddress(net.JoinHostPort(host, port)); why != nil {
			t.Errorf("%q is taken for %s and %s: %v", name, host, port, why)
		}
	})
}

// fakeDNS answers look-ups.
type fakeDNS struct {
	mu      sync.Mutex
	found   []string
	err     error
	lookups int
}

func (f *fakeDNS) lookup(context.Context, string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	return f.found, f.err
}

func (f *fakeDNS) set(err error, found ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found, f.err = found, err
}

func (f *fakeDNS) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookups
}

func (f *fakeDNS) builder() resolver.Builder {
	return &dnsBuilder{
		interval: defaultDNSInterval, pace: defaultPace(), log: slog.New(slog.DiscardHandler),
		lookup: func(string) lookup { return f.lookup },
	}
}

func TestDNSAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDNS)
		f.set(nil, "10.0.0.2", "10.0.0.1")
		cc, r := resolve(t, f.builder(), "dns:///shop:80")
		defer r.Close()
		expect(t, cc, "10.0.0.1:80 10.0.0.2:80")
		f.set(nil, "10.0.0.1", "10.0.0.2", "10.0.0.3") // a replica more, and nothing fails
		pass(defaultDNSInterval)
		expect(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
		f.set(nil, "10.0.0.3", "10.0.0.3")
		pass(defaultDNSInterval)
		expect(t, cc, "10.0.0.3:80")
		if n := f.count(); n > 5 {
			t.Errorf("%d look-ups in a minute", n)
		}
	})
}

func TestDNSThatDoesNotAnswerKeepsTheEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDNS)
		f.set(nil, "10.0.0.1")
		cc, r := resolve(t, f.builder(), "dns:///shop:80")
		defer r.Close()
		expect(t, cc, "10.0.0.1:80")
		f.set(&net.DNSError{Err: "i/o timeout", Name: "shop", IsTimeout: true})
		before := f.count()
		pass(time.Hour)
		expect(t, cc, "10.0.0.1:80")
		if n := f.count() - before; n > 3600/3 {
			t.Errorf("%d look-ups in an hour without an answer", n)
		}
		f.set(nil, "10.0.0.2")
		pass(defaultPace().maxBackoff)
		expect(t, cc, "10.0.0.2:80")
	})
}

func TestDNSNameThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDNS)
		f.set(nil, "10.0.0.1")
		cc, r := resolve(t, f.builder(), "dns:///shop:80")
		defer r.Close()
		expect(t, cc, "10.0.0.1:80")
		f.set(&net.DNSError{Err: "no such host", Name: "shop", IsNotFound: true})
		pass(defaultDNSInterval)
		expect(t, cc, "10.0.0.1:80") // for the grace period
		pass(defaultPace().grace + time.Second)
		expect(t, cc, "error: no endpoints of DNS name shop")
		f.set(nil, "10.0.0.2")
		pass(defaultDNSInterval)
		expect(t, cc, "10.0.0.2:80")
	})
}

func TestDNSUnknownFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDNS)
		f.set(&net.DNSError{Err: "no such host", Name: "shop", IsNotFound: true})
		cc, r := resolve(t, f.builder(), "dns:///shop:80")
		defer r.Close()
		expect(t, cc, "error: no endpoints of DNS name shop")
		f.set(errors.New("server misbehaving"))
		other, r2 := resolve(t, f.builder(), "dns:///shop:80")
		defer r2.Close()
		expect(t, other, "error: looking for endpoints of DNS name shop: server misbehaving")
	})
}

func TestDNSHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDNS)
		f.set(nil, "10.0.0.1")
		cc, r := resolve(t, f.builder(), "dns:///shop:80")
		defer r.Close()
		expect(t, cc, "10.0.0.1:80")
		f.set(nil, "10.0.0.2")
		r.ResolveNow(resolver.ResolveNowOptions{})
		pass(dnsMinPause)
		expect(t, cc, "10.0.0.2:80")
		before := f.count()
		for range 1000 {
			r.ResolveNow(resolver.ResolveNowOptions{})
			pass(10 * time.Millisecond)
		}
		if n := f.count() - before; n > 11 {
			t.Errorf("%d look-ups in 10 s of hints, want one a second", n)
		}
	})
}

func TestDNSAddressesAreNotLookedUp(t *testing.T) {
	t.Parallel()
	f := new(fakeDNS)
	cc, r := resolve(t, f.builder(), "dns:///[::1]:80")
	defer r.Close()
	r.ResolveNow(resolver.ResolveNowOptions{})
	if got := cc.last(); got != "[::1]:80" || f.count() != 0 {
		t.Errorf("told %q after %d look-ups", got, f.count())
	}
}

// dnsServer is a DNS server on the loopback interface, which knows one name's
// IPv4 addresses.
type dnsServer struct {
	address string

	mu      sync.Mutex
	records [][4]byte
	code    dnsmessage.RCode
	silent  bool
	asked   int
}

func startDNS(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{address: conn.LocalAddr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := s.answer(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

func (s *dnsServer) answer(question []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 || s.silent {
		return nil
	}
	s.asked++
	q := m.Questions[0]
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RCode: s.code},
		Questions: m.Questions,
	}
	if !strings.HasPrefix(q.Name.String(), "shop.internal.") {
		answer.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA && s.code == dnsmessage.RCodeSuccess {
		for _, ip := range s.records {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
				Body:   &dnsmessage.AResource{A: ip},
			})
		}
	}
	packed, err := answer.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func (s *dnsServer) set(code dnsmessage.RCode, silent bool, records ...[4]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.silent, s.records = code, silent, records
}

func (s *dnsServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func TestRealDNS(t *testing.T) {
	t.Parallel()
	server := startDNS(t)
	one, two := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}
	server.set(dnsmessage.RCodeSuccess, false, one)
	b, ok := DNSBuilder(config.DNS{}, slog.New(slog.DiscardHandler)).(*dnsBuilder)
	if !ok {
		t.Fatal("the builder is another one")
	}
	b.interval = 20 * time.Millisecond
	b.pace = pace{grace: 300 * time.Millisecond, minBackoff: 10 * time.Millisecond, maxBackoff: 20 * time.Millisecond}
	cc, r := resolve(t, Share(b), "dns://"+server.address+"/shop.internal:80")
	defer r.Close()
	eventuallyTold(t, cc, "127.0.0.1:80")
	server.set(dnsmessage.RCodeSuccess, false, one, two)
	eventuallyTold(t, cc, "127.0.0.1:80 127.0.0.2:80")

	server.set(dnsmessage.RCodeServerFailure, false)
	asked := server.count()
	eventually(t, "it is asked in vain", func() bool { return server.count() > asked+10 })
	if got := cc.last(); got != "127.0.0.1:80 127.0.0.2:80" {
		t.Errorf("with a failing server: %q", got)
	}
	server.set(dnsmessage.RCodeSuccess, false, two)
	eventuallyTold(t, cc, "127.0.0.2:80")

	server.set(dnsmessage.RCodeNameError, false)
	eventuallyTold(t, cc, "error: no endpoints of DNS name shop.internal")
	server.set(dnsmessage.RCodeSuccess, false, one)
	eventuallyTold(t, cc, "127.0.0.1:80")
}

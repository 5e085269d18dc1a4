package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

const (
	dnsScheme = "dns"
	// defaultDNSPort is gRPC's, for a target without a port.
	defaultDNSPort = "443"
	// dnsTimeout is how long one look-up may take.
	dnsTimeout = 5 * time.Second
	// dnsMinPause is the least time between two look-ups that gRPC's hints ask for:
	// a connection that fails is tried again several times a second.
	dnsMinPause = time.Second

	defaultDNSInterval = 30 * time.Second
)

// DNSBuilder resolves targets with scheme dns, as gRPC's own resolver of that
// scheme, but asks again at intervals: that one does only when a connection
// fails, so that the addresses that a service gains are not seen while all is
// well. A name that has no addresses any more keeps the old ones for a grace
// period; while DNS does not answer, they stay.
//
// It looks for A and AAAA records, not for SRV and not for service configs.
func DNSBuilder(cfg config.DNS, log *slog.Logger) resolver.Builder {
	return &dnsBuilder{
		interval: cmp.Or(cfg.Interval, defaultDNSInterval), pace: defaultPace(), log: log,
		lookup: func(server string) lookup { return resolverOf(server).LookupHost },
	}
}

// lookup finds a host's addresses.
type lookup func(ctx context.Context, host string) ([]string, error)

type dnsBuilder struct {
	interval time.Duration
	pace     pace
	log      *slog.Logger
	lookup   func(server string) lookup
}

func (*dnsBuilder) Scheme() string { return dnsScheme }

func (b *dnsBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	host, port, err := parseDNSTarget(target)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		_ = cc.UpdateState(stateOf([]endpoint{{address: net.JoinHostPort(host, port)}})) // an error is the balancer's
		return staticResolver{}, nil
	}
	s := &dnsSource{host: host, port: port, lookup: b.lookup(target.URL.Host), interval: b.interval}
	return startFollower(s, cc, b.pace, b.log), nil
}

// parseDNSTarget reads dns:///host, dns:///host:port and dns://server/host:port.
func parseDNSTarget(target resolver.Target) (host, port string, err error) {
	name := target.Endpoint()
	fault := func(why string) error { return fmt.Errorf("dns target %q %s", target.URL.String(), why) }
	host, port, err = net.SplitHostPort(name)
	if err != nil {
		bare := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
		host, port = bare, defaultDNSPort
		if _, err := netip.ParseAddr(bare); err != nil && strings.Contains(bare, ":") {
			return "", "", fault("is not host:port")
		}
	}
	if host == "" {
		return "", "", fault("names no host")
	}
	if err := checkAddress(net.JoinHostPort(host, port)); err != nil {
		return "", "", fmt.Errorf("dns target: %w", err)
	}
	return host, port, nil
}

// resolverOf asks a DNS server, host or host:port; empty: those of the system.
func resolverOf(server string) *net.Resolver {
	if server == "" {
		return net.DefaultResolver
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(strings.Trim(server, "[]"), "53")
	}
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, server)
		},
	}
}

// dnsSource is one name.
type dnsSource struct {
	host, port string
	lookup     lookup
	interval   time.Duration
}

func (s *dnsSource) String() string { return "DNS name " + s.host }

func (s *dnsSource) follow(ctx context.Context, tell func([]endpoint), hints <-chan struct{}) error {
	for {
		endpoints, err := s.find(ctx)
		if err != nil {
			return err
		}
		tell(endpoints)
		asked := time.Now()
		again := time.NewTimer(jitter(s.interval))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				again.Stop()
				return ctx.Err()
			case <-again.C:
				waiting = false
			case <-hints:
				again.Reset(min(max(0, time.Until(asked.Add(dnsMinPause))), time.Until(asked.Add(s.interval))))
			}
		}
	}
}

// find returns none, and no error, for a name that is known to have no addresses.
func (s *dnsSource) find(ctx context.Context) ([]endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	found, err := s.lookup(ctx, s.host)
	var answer *net.DNSError
	switch {
	case errors.As(err, &answer) && answer.IsNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	}
	endpoints := make([]endpoint, 0, len(found))
	for _, ip := range found {
		endpoints = append(endpoints, endpoint{address: net.JoinHostPort(ip, s.port)})
	}
	return sorted(endpoints), nil
}

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
	"github.com/rpcgate/rpcgate/integration/faultproxy"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// system is all that faults befall, as processes of their own.
type system struct {
	tb        testing.TB
	etcd      *etcdtest.Server
	redis     *redistest.Server
	endpoints [Endpoints]*endpoint
	gateways  [Gateways]*gateway
	apps      []app
}

// endpoint is a backend behind a proxy. Gateways know the proxy's address
// alone.
type endpoint struct {
	sync.Mutex // held by the fault that it has

	backend *ledger.Backend
	proxy   *faultproxy.Proxy
}

// app is a caller's credential.
type app struct{ id, token string }

// settings are the gateways' but for where things are. What is asked of them is
// that no call that may be repeated fails while one endpoint of five is
// healthy: so a call may have as many attempts as there are endpoints, each of
// them ends soon enough for the next, and nearly all endpoints may be out of
// use at once.
const settings = `
    timeout: 8s
    stream_timeout: 8s
    retry:
      max_attempts: 5
      attempt_timeout: 1s
      budget: {ratio: 1, min_per_second: 50}
    ejection: {consecutive_failures: 3, base_time: 1s, max_time: 3s, max_share: 0.8, panic_threshold: 0.1}
    balancer: {slow_start: 1s}
    conn: {connect_timeout: 1s, max_backoff: 500ms, keepalive_time: 10s, keepalive_timeout: 2s}
`

// start starts a system and waits until every gateway reaches every endpoint.
func start(tb testing.TB) *system {
	tb.Helper()
	s := &system{tb: tb, etcd: etcdtest.Start(tb), redis: redistest.Start(tb, redistest.Options{Persist: true})}
	for i := range 3 {
		id := "app" + strconv.Itoa(i)
		s.apps = append(s.apps, app{id, gatewaytest.IssueToken(tb, s.redis.Addr, id)})
	}
	for i := range s.endpoints {
		addr := gatewaytest.FreeAddress(tb)
		proxy := faultproxy.Start(tb, gatewaytest.FreeAddress(tb), addr)
		s.endpoints[i] = &endpoint{proxy: proxy, backend: ledger.Start(tb, ledger.Options{
			Name: "e" + strconv.Itoa(i), Addr: addr,
			Args: []string{"--etcd", s.etcd.Endpoint, "--advertise", proxy.Addr, "--work", "2ms", "--gone", "200ms"},
		})}
	}
	for i := range s.gateways {
		s.gateways[i] = s.startGateway(i)
	}
	return s
}

// gateway is one of the gateways: one process after the other at the same
// addresses.
type gateway struct {
	number            int
	config            string
	http, grpc, admin string

	mu      sync.Mutex
	process *gatewaytest.Gateway
	killed  bool // with kill -9, and not yet back
	kills   int
	logs    strings.Builder // of the processes before
}

func (s *system) startGateway(number int) *gateway {
	s.tb.Helper()
	g := &gateway{
		number: number,
		http:   gatewaytest.FreeAddress(s.tb), grpc: gatewaytest.FreeAddress(s.tb), admin: gatewaytest.FreeAddress(s.tb),
	}
	var b strings.Builder
	fmt.Fprintf(&b, "http: {address: %q}\ngrpc: {address: %q}\nadmin: {address: %q}\n", g.http, g.grpc, g.admin)
	fmt.Fprintf(&b, "redis: {addresses: [%q]}\netcd: {endpoints: [%q]}\n", s.redis.Addr, s.etcd.Endpoint)
	b.WriteString("auth: {cache: {ttl: 1s}}\n") // so that Redis is asked all the time
	b.WriteString("log: {success_sample: 0}\nshutdown: {delay: 500ms}\n")
	fmt.Fprintf(&b, "backends:\n  - name: ledger\n    etcd: {key: ledger.rpc}\n    proto: {files: [%q], import_paths: [%q]}\n",
		ledger.ProtoFile, ledger.ProtoPath())
	b.WriteString(strings.TrimPrefix(settings, "\n"))
	g.config = b.String()
	g.process = gatewaytest.Serve(s.tb, g.config)
	return g
}

// again starts the next process of a gateway whose last one has ended.
func (g *gateway) again(tb testing.TB) {
	tb.Helper()
	next := gatewaytest.Serve(tb, g.config)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logs.WriteString(g.process.Output())
	g.process, g.killed = next, false
}

// kill kills the gateway as a crash does.
func (g *gateway) kill() {
	g.mu.Lock()
	g.killed = true
	g.kills++
	g.mu.Unlock()
	g.current().Kill()
}

func (g *gateway) current() *gatewaytest.Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

// struck returns how often the gateway was killed so far, and whether it is at
// the moment: a call that was there then, or that found nobody, is not its
// fault.
func (g *gateway) struck() (kills int, now bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kills, g.killed
}

// said returns the lines of the gateway's log that have text.
func (g *gateway) said(text string) []string {
	g.mu.Lock()
	all := g.logs.String() + g.process.Output()
	g.mu.Unlock()
	var lines []string
	for line := range strings.Lines(all) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

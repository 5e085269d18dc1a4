// Package faultproxy puts a TCP proxy before a server that does to connections
// what networks do to them: it delays, resets and swallows. It is toxiproxy as
// a library.
package faultproxy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy passes connections on to a server. It ends with the test. A new fault
// takes the place of the one before. Its methods are for one goroutine at a
// time.
type Proxy struct {
	// Addr is its host:port; it stays the same over Stop and Start.
	Addr string

	tb    testing.TB
	proxy *toxiproxy.Proxy
}

// Start starts a proxy at addr (host:port, port 0 for any) before upstream.
func Start(tb testing.TB, addr, upstream string) *Proxy {
	tb.Helper()
	log := zerolog.Nop()
	p := &Proxy{tb: tb, proxy: toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), log), upstream, addr, upstream)}
	if err := p.proxy.Start(); err != nil {
		tb.Fatalf("starting a proxy before %s: %v", upstream, err)
	}
	p.Addr = p.proxy.Listen
	tb.Cleanup(p.proxy.Stop)
	return p
}

// Restore ends the fault. Connections that lost bytes are closed, as what came
// after the hole would make no sense.
func (p *Proxy) Restore() { p.proxy.Toxics.ResetToxics(context.Background()) }

// Delay holds up what the server says by latency, give or take jitter.
func (p *Proxy) Delay(latency, jitter time.Duration) {
	p.fault("latency", "downstream", map[string]int64{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Reset resets (RST) each connection, the new ones too, as soon as anything
// is said on it.
func (p *Proxy) Reset() { p.fault("reset_peer", "downstream", map[string]int64{"timeout": 0}) }

// Silence swallows what is said in both directions: connections stay open, new
// ones are accepted, and nothing comes of them.
func (p *Proxy) Silence() {
	p.fault("timeout", "downstream", map[string]int64{"timeout": 0})
	p.add("timeout", "upstream", map[string]int64{"timeout": 0})
}

// Drop closes (FIN) all connections, and refuses new ones until Accept.
func (p *Proxy) Drop() { p.proxy.Stop() }

// Accept takes connections again after Drop.
func (p *Proxy) Accept() {
	p.tb.Helper()
	if err := p.proxy.Start(); err != nil {
		p.tb.Fatalf("starting the proxy at %s again: %v", p.Addr, err)
	}
}

func (p *Proxy) fault(kind, direction string, attributes map[string]int64) {
	p.tb.Helper()
	p.Restore()
	p.add(kind, direction, attributes)
}

func (p *Proxy) add(kind, direction string, attributes map[string]int64) {
	p.tb.Helper()
	text, err := json.Marshal(struct {
		Type       string           `json:"type"`
		Stream     string           `json:"stream"`
		Attributes map[string]int64 `json:"attributes"`
	}{kind, direction, attributes})
	if err != nil {
		p.tb.Fatal(err)
	}
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		p.tb.Fatalf("%s at the proxy at %s: %v", kind, p.Addr, err)
	}
}

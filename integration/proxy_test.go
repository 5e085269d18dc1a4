package integration_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is a network between two programs, to be slowed down and cut.
type proxy struct {
	Addr string

	lis net.Listener
	wg  sync.WaitGroup

	mu      sync.Mutex
	target  string
	changed chan struct{} // closed when what is below changes
	delay   time.Duration
	held    bool
	cut     bool
	conns   map[net.Conn]struct{}
}

// startProxy starts a network to target that carries everything at once.
func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	var listener net.ListenConfig
	lis, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		Addr: lis.Addr().String(), target: target, lis: lis,
		changed: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = lis.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Slow has everything take d longer in each direction.
func (p *proxy) Slow(d time.Duration) { p.change(func() { p.delay = d }) }

// Hold lets nothing through, with the connections left open.
func (p *proxy) Hold() { p.change(func() { p.held = true }) }

// Cut breaks all connections; new ones are accepted and broken at once.
func (p *proxy) Cut() {
	p.change(func() {
		p.cut = true
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

// Lead breaks all connections and has new ones go elsewhere.
func (p *proxy) Lead(target string) {
	p.change(func() {
		p.target = target
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

// Mend ends what Slow, Hold and Cut began.
func (p *proxy) Mend() { p.change(func() { p.delay, p.held, p.cut = 0, false, false }) }

func (p *proxy) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *proxy) accept() {
	for {
		from, err := p.lis.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		to, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			_ = from.Close()
			continue
		}
		if !p.keep(from, to) {
			continue
		}
		p.wg.Go(func() { p.carry(from, to) })
		p.wg.Go(func() { p.carry(to, from) })
	}
}

// keep remembers two ends of a connection to be cut, or cuts them now.
func (p *proxy) keep(from, to net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_, _ = from.Close(), to.Close()
		return false
	}
	p.conns[from], p.conns[to] = struct{}{}, struct{}{}
	return true
}

func (p *proxy) carry(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.await()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await returns when what was read may go on.
func (p *proxy) await() {
	began := time.Now()
	for {
		p.mu.Lock()
		changed, held := p.changed, p.held && !p.cut
		left := p.delay - time.Since(began)
		p.mu.Unlock()
		switch {
		case held:
			<-changed
		case left > 0:
			timer := time.NewTimer(left)
			select {
			case <-changed:
			case <-timer.C:
			}
			timer.Stop()
		default:
			return
		}
	}
}

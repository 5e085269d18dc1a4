package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is callers that each make one call after the other, in turn at each
// gateway that says it is ready, as behind a load balancer.
type load struct {
	system  *system
	clients [Gateways]*client
	ready   [Gateways]atomic.Bool
	next    atomic.Int64 // numbers the calls

	mu    sync.Mutex
	calls []*call
}

func newLoad(tb testing.TB, s *system) *load {
	tb.Helper()
	l := &load{system: s}
	for i, g := range s.gateways {
		l.clients[i] = newClient(tb, g)
	}
	return l
}

// callers is how many callers there are of each kind. Most calls are such as
// may be repeated, since theirs is the figure that must be reached.
var callers = []struct {
	n      int
	method method
	road   string
}{
	{4, look, "JSON"}, {4, look, "gRPC"}, {2, post, "JSON"}, {2, post, "gRPC"}, {1, follow, "JSON"}, {1, follow, "gRPC"},
}

// run has all callers call until ctx ends, each once in pace, and waits for the
// calls in flight. It returns the calls in the order in which they ended.
func (l *load) run(ctx context.Context, pace time.Duration) []*call {
	began := time.Now()
	watching, stopWatching := context.WithCancel(context.Background())
	var watchers, all sync.WaitGroup
	for i := range l.clients {
		l.look(i)
		watchers.Go(func() { l.watch(watching, i) })
	}
	worker := 0
	for _, c := range callers {
		for range c.n {
			number := worker
			worker++
			all.Go(func() { l.work(ctx, began, pace, number, c.method, c.road) })
		}
	}
	all.Wait()
	stopWatching()
	watchers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

func (l *load) work(ctx context.Context, began time.Time, pace time.Duration, number int, m method, road string) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	turn := number
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c := &call{tag: fmt.Sprintf("%s-%d", m, l.next.Add(1)), method: m, road: road, began: time.Since(began)}
		turn++
		l.call(c, number, turn)
		c.took = time.Since(began) - c.began
		l.mu.Lock()
		l.calls = append(l.calls, c)
		l.mu.Unlock()
	}
}

// call makes a call at the gateway whose turn it is. At a gateway where nobody
// listens nothing was sent, and the next one has its turn.
func (l *load) call(c *call, number, turn int) {
	a := l.system.apps[turn/Gateways%len(l.system.apps)]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 2 * Gateways {
		c.gateway = (turn + i) % Gateways
		if !l.ready[c.gateway].Load() && i < Gateways {
			continue
		}
		gateway, client := l.system.gateways[c.gateway], l.clients[c.gateway]
		kills, killed := gateway.struck()
		switch {
		case c.road == "gRPC":
			c.err = client.grpcCall(ctx, a, c)
		case number%2 == 0:
			c.err = client.httpCall(ctx, client.http1, a, c)
		default:
			c.err = client.httpCall(ctx, client.http2, a, c)
		}
		if killsNow, killedNow := gateway.struck(); c.err != nil && (killed || killedNow || kills != killsNow) {
			c.excused = true
		}
		if !unsent(c.err) {
			return
		}
	}
}

// watch looks at a gateway's readiness, until ctx ends.
func (l *load) watch(ctx context.Context, number int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.look(number)
		}
	}
}

func (l *load) look(number int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.system.gateways[number].admin+"/readyz", http.NoBody)
	if err != nil {
		panic(err)
	}
	resp, err := l.clients[number].http1.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	l.ready[number].Store(err == nil && resp.StatusCode == http.StatusOK)
}

// slowest returns the n calls that took longest.
func slowest(calls []*call, n int) []*call {
	sorted := slices.SortedFunc(slices.Values(calls), func(a, b *call) int { return int(b.took - a.took) })
	return sorted[:min(n, len(sorted))]
}

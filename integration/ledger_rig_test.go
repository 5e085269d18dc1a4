package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/ledger"
	"github.com/rpcgate/rpcgate/integration/ledger/ledgerpb"
)

// ledgerRig is a gateway before backends that journal what they execute.
type ledgerRig struct {
	*rig
	backends []*ledger.Backend
	ledger   ledgerpb.LedgerClient
	last     atomic.Int64 // numbers the calls

	mu    sync.Mutex
	times []time.Duration // that calls took since they were last asked for
	by    map[string]int  // endpoints that answered them
}

// startLedgers starts n backends.
func startLedgers(t *testing.T, n int, args ...string) []*ledger.Backend {
	t.Helper()
	all := make([]*ledger.Backend, n)
	for i := range all {
		all[i] = ledger.Start(t, ledger.Options{Name: fmt.Sprint("e", i), Addr: gatewaytest.FreeAddress(t), Args: args})
	}
	return all
}

// beforeLedgers starts a gateway before backends. addrs is where it finds them;
// none: where they are. settings are lines of the backend's config.
func beforeLedgers(t *testing.T, backends []*ledger.Backend, settings string, addrs ...string) *ledgerRig {
	t.Helper()
	if addrs == nil {
		for _, b := range backends {
			addrs = append(addrs, b.Addr)
		}
	}
	return newLedgerRig(t, backends, ledgerConfig(settings, "endpoints: ["+strings.Join(addrs, ", ")+"]"))
}

func newLedgerRig(t *testing.T, backends []*ledger.Backend, config string) *ledgerRig {
	t.Helper()
	r := &ledgerRig{rig: newRig(t, config), backends: backends, by: map[string]int{}}
	r.ledger = ledgerpb.NewLedgerClient(r.conn)
	return r
}

// ledgerConfig is a config for ledgers that are found as place says.
func ledgerConfig(settings, place string) string {
	text := fmt.Sprintf("%sbackends:\n  - name: ledger\n    %s\n    proto: {files: [%q], import_paths: [%q]}\n",
		quiet, place, ledger.ProtoFile, ledger.ProtoPath())
	for line := range strings.Lines(settings) {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	return text
}

// tag is a new one for each call.
func (r *ledgerRig) tag(method string) string { return fmt.Sprintf("%s-%d", method, r.last.Add(1)) }

// looking calls, over gRPC, what may be repeated.
func (r *ledgerRig) looking() callFunc {
	return r.timed(func(ctx context.Context) (*ledgerpb.Entry, error) {
		return r.ledger.Look(r.as(ctx), &ledgerpb.Request{Tag: r.tag("look")})
	})
}

// booking calls, over gRPC, what may not be repeated.
func (r *ledgerRig) booking() callFunc {
	return r.timed(func(ctx context.Context) (*ledgerpb.Entry, error) {
		return r.ledger.Post(r.as(ctx), &ledgerpb.Request{Tag: r.tag("post")})
	})
}

// timed keeps how long a call took and who answered it.
func (r *ledgerRig) timed(call func(context.Context) (*ledgerpb.Entry, error)) callFunc {
	return func(ctx context.Context) error {
		began := time.Now()
		e, err := call(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.times = append(r.times, time.Since(began))
		if err == nil {
			r.by[e.GetEndpoint()]++
		}
		return err
	}
}

// lookingJSON is looking over HTTP/1.1. net/http must not repeat the call in the
// gateway's place: a request with a body that cannot be read again it does not.
func (r *ledgerRig) lookingJSON() callFunc {
	return func(ctx context.Context) error {
		body := struct{ *strings.Reader }{strings.NewReader("")} // of no type that net/http knows how to rewind
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTP+"/v1/entries/"+r.tag("look"), body)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", r.bearer())
		return send(r.http1, req)
	}
}

// since returns how long the calls took since it was last asked, in order, and
// which share of them each endpoint answered.
func (r *ledgerRig) since() (times []time.Duration, shares map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times, by := r.times, r.by
	r.times, r.by = nil, map[string]int{}
	slices.Sort(times)
	shares = map[string]float64{}
	for name, n := range by {
		shares[name] = float64(n) / float64(sum(by))
	}
	return times, shares
}

// percentile of times that are in order.
func percentile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[int(p*float64(len(times)-1))]
}

// slowerThan counts times that are in order.
func slowerThan(times []time.Duration, limit time.Duration) int {
	i, _ := slices.BinarySearch(times, limit)
	return len(times) - i
}

// executedOnce checks that nothing that may not be repeated was.
func (r *ledgerRig) executedOnce(t *testing.T) {
	t.Helper()
	times := map[string]int{}
	for _, b := range r.backends {
		for _, e := range b.Journal() {
			if e.Method == "Post" {
				times[e.Tag]++
			}
		}
	}
	for tag, n := range times {
		if n > 1 {
			t.Errorf("%s was executed %d times", tag, n)
		}
	}
}

// awaitCalled waits until a backend has executed n calls more.
func awaitCalled(t *testing.T, b *ledger.Backend, n int) {
	t.Helper()
	before := len(b.Journal())
	gatewaytest.Eventually(t, func() error {
		if got := len(b.Journal()) - before; got < n {
			return fmt.Errorf("%s executed %d calls, want %d", b.Name, got, n)
		}
		return nil
	})
}

// onlyFailed checks that at most n calls failed, and none of those that may be
// repeated.
func onlyFailed(t *testing.T, repeatable, others *load, n int) {
	t.Helper()
	repeatable.only()
	if got := sum(others.reasons()); got > n {
		t.Errorf("%d calls that may not be repeated failed, want at most %d: %v", got, n, others.reasons())
	}
	others.only("BACKEND_UNREACHABLE")
}

// unharmed fails once a call has failed.
func (l *load) unharmed() error {
	if failed := l.reasons(); len(failed) > 0 {
		return fmt.Errorf("calls failed: %v", failed)
	}
	return nil
}

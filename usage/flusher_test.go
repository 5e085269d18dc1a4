package usage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// model is a Redis that knows one script, and can fail before or after it ran.
type model struct {
	mu     sync.Mutex
	hashes map[string]map[string]string
	fail   func(n int) (before, after error) // of the n-th pipeline; nil: none
	n      int
}

func (m *model) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (m *model) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (m *model) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.n++
		var before, after error
		if m.fail != nil {
			before, after = m.fail(m.n)
		}
		for _, c := range commands {
			if before == nil {
				m.add(c.Args())
			}
			if err := errors.Join(before, after); err != nil {
				c.SetErr(err)
			}
		}
		return errors.Join(before, after)
	}
}

// add is the script, in Go: EVALSHA sha 1 key node number keep (field n)*.
func (m *model) add(args []any) {
	text := func(i int) string { return fmt.Sprint(args[i]) }
	hash := m.hashes[text(3)]
	if hash == nil {
		hash = map[string]string{}
		m.hashes[text(3)] = hash
	}
	seen, _ := strconv.Atoi(hash[text(4)])
	number, _ := strconv.Atoi(text(5))
	if seen >= number {
		return
	}
	hash[text(4)] = text(5)
	for i := 7; i < len(args); i += 2 {
		was, _ := strconv.Atoi(hash[text(i)])
		n, _ := strconv.Atoi(text(i + 1))
		hash[text(i)] = strconv.Itoa(was + n)
	}
}

func (m *model) calls(key string) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range rowsOf(time.Time{}, m.hashes[key]) {
		n += row.Calls
	}
	return n
}

func newModel(t *testing.T) (*model, *Counts, *Flusher) {
	t.Helper()
	m := &model{hashes: map[string]map[string]string{}}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	rdb.AddHook(m)
	t.Cleanup(func() { _ = rdb.Close() })
	counts := NewCounts()
	f, err := NewFlusher(counts, rdb, tenant.KeysOf(config.Auth{}), config.Usage{Interval: 2 * time.Second, Keep: 48 * time.Hour}, FlusherOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m, counts, f
}

func TestDaysBeginAtMidnightUTC(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The bubble begins at midnight; 1.3 s off the flushes' beat.
		time.Sleep(23*time.Hour + 59*time.Minute + 58*time.Second + 700*time.Millisecond)
		m, counts, f := newModel(t)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		for range 26 { // a call each 100 ms: the 13th comes 1 ms before midnight
			counts.Count("acme", "GET /", Nobody, 0, 0)
			time.Sleep(100 * time.Millisecond)
			if time.Now().Nanosecond() == 0 && time.Now().Second() == 0 {
				synctest.Wait() // midnight's flush
			}
		}
		stop()
		running.Wait()
		first, second := m.calls("rpcgate:{acme}:usage:20000101"), m.calls("rpcgate:{acme}:usage:20000102")
		if first != 13 || second != 13 {
			t.Errorf("%d calls on the first day and %d on the second, want 13 each", first, second)
		}
	})
}

// Each flush may fail before it is done or after: in the end nothing is missing,
// and nothing is there twice.
func TestAFlushOfUnknownOutcomeIsNeverDoubled(t *testing.T) {
	t.Parallel()
	m, counts, f := newModel(t)
	broken := errors.New("connection reset")
	m.fail = func(n int) (before, after error) {
		switch n % 3 {
		case 0:
			return broken, nil
		case 1:
			return nil, broken
		}
		return nil, nil
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f.taken = now
	const rounds = 100
	for range rounds {
		for i := range 300 {
			counts.Count("app"+strconv.Itoa(i%3), "GET /"+strconv.Itoa(i), Nobody, 1, 1)
		}
		f.take(now)
		f.flush(t.Context(), flushTimeout)
	}
	m.fail = nil
	for range 3 {
		f.flush(t.Context(), flushTimeout)
	}
	for i := range 3 {
		if n := m.calls("rpcgate:{app" + strconv.Itoa(i) + "}:usage:20260501"); n != rounds*100 {
			t.Errorf("app%d: %d calls in Redis, want %d", i, n, rounds*100)
		}
	}
	if n := f.ledgers.unflushed.Load(); n != 0 || len(f.ledgers.of) != 0 || f.ledgers.kept != 0 {
		t.Errorf("%d calls in %d ledgers are left", n, len(f.ledgers.of))
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	m, counts, f := newModel(t)
	down := errors.New("connection refused")
	m.fail = func(int) (before, after error) { return down, nil }
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f.taken = now
	var counted, uncounted int64
	for round := range 8 {
		for i := range 60_000 { // other apps each time
			counts.Count("app"+strconv.Itoa(round)+"-"+strconv.Itoa(i), "GET /", Nobody, 0, 0)
			counted++
		}
		f.take(now)
		uncounted += counts.lost.Load()
		counts = NewCounts() // as if they had left
		f.counts = counts
	}
	if f.ledgers.kept > maxKept || f.ledgers.others > maxKeptOthers {
		t.Errorf("%d and %d are kept, want at most %d and %d", f.ledgers.kept, f.ledgers.others, maxKept, maxKeptOthers)
	}
	kept, lost := f.ledgers.unflushed.Load(), f.ledgers.lost.Load()+uncounted
	if kept+lost != counted || lost == 0 {
		t.Errorf("%d kept and %d told to be lost, of %d", kept, lost, counted)
	}
	f.flush(t.Context(), flushTimeout)
	m.fail = nil
	f.flush(t.Context(), flushTimeout)
	if n := f.ledgers.unflushed.Load(); n != 0 || f.ledgers.kept != 0 || f.ledgers.others != 0 {
		t.Errorf("%d calls are not flushed; %d, %d", n, f.ledgers.kept, f.ledgers.others)
	}
	var flushed int64
	for key := range m.hashes {
		flushed += m.calls(key)
	}
	if flushed != kept {
		t.Errorf("%d calls in Redis, want %d", flushed, kept)
	}
}

func TestReadFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	rows := rowsOf(time.Time{}, map[string]string{
		"calls GET /b": "3", "caller GET /b": "1", "in GET /b": "7", "calls GET /a": "2", "out GET /a": "9", "backend GET /a": "1", "gateway GET /a": "1",
		"#node": "17", "calls": "1", "calls GET /c": "many", "later GET /d": "4",
	})
	want := []Row{
		{Route: "GET /a", Used: Used{Calls: 2, GatewayFailures: 1, BackendFailures: 1, BytesOut: 9}},
		{Route: "GET /b", Used: Used{Calls: 3, CallerFailures: 1, BytesIn: 7}},
	}
	if len(rows) != 2 || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("rows %+v, want %+v", rows, want)
	}
	for _, days := range []int{-1, MaxDays} {
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if _, err := Read(t.Context(), nil, tenant.Keys{}, "acme", from, from.AddDate(0, 0, days)); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "2026-01-01") {
			t.Errorf("%d days: %v, want ErrRange", days, err)
		}
	}
}

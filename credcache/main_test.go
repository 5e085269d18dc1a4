package credcache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// id is a key like the real ones: a struct of strings.
type id struct{ app, token string }

var (
	alice    = id{"acme", "alice"}
	errRedis = errors.New("connection refused")
)

// source is a loader whose answer a test sets.
type source struct {
	mu    sync.Mutex
	value int
	err   error
	delay time.Duration
	calls int
	block chan struct{} // if set, a call waits for it
}

func (s *source) load(ctx context.Context, _ id) (int, error) {
	s.mu.Lock()
	s.calls++
	value, err, delay, block := s.value, s.err, s.delay, s.block
	s.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return value, err
}

func (s *source) set(value int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.err = value, err
}

func (s *source) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func mustNew[K comparable, V any](tb testing.TB, o Options, load Loader[K, V]) *Cache[K, V] {
	tb.Helper()
	c, err := New(o, load)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// want gets alice and compares.
func want(t *testing.T, c *Cache[id, int], value int, err error) {
	t.Helper()
	got, gotErr := c.Get(t.Context(), alice)
	if got != value || !errors.Is(gotErr, err) {
		t.Fatalf("Get = %d, %v; want %d, %v", got, gotErr, value, err)
	}
}

func wantCalls(t *testing.T, s *source, n int) {
	t.Helper()
	if got := s.count(); got != n {
		t.Fatalf("the loader was asked %d times, want %d", got, n)
	}
}

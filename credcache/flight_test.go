package credcache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// getMany gets alice from n goroutines, and returns what they got.
func getMany(ctx context.Context, c *Cache[id, int], n int) func() ([]int, []error) {
	var wg sync.WaitGroup
	values, errs := make([]int, n), make([]error, n)
	for i := range n {
		wg.Go(func() { values[i], errs[i] = c.Get(ctx, alice) })
	}
	return func() ([]int, []error) {
		wg.Wait()
		return values, errs
	}
}

func TestOneLookUpForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1, block: make(chan struct{})}
		c := mustNew(t, Options{}, s.load)
		result := getMany(t.Context(), c, 1000)
		synctest.Wait()
		close(s.block)
		values, errs := result()
		for i := range values {
			if values[i] != 1 || errs[i] != nil {
				t.Fatalf("caller %d got %d, %v", i, values[i], errs[i])
			}
		}
		wantCalls(t, s, 1)
	})
}

// The first caller's cancellation ends neither the look-up nor the others' wait.
func TestCancellationIsTheCallersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: 1, block: make(chan struct{})}
		c := mustNew(t, Options{}, s.load)
		cause := errors.New("hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := getMany(ctx, c, 1)
		synctest.Wait()
		others := getMany(t.Context(), c, 10)
		synctest.Wait()
		cancel(cause)
		if _, errs := first(); !errors.Is(errs[0], cause) {
			t.Errorf("the first got %v, want %v", errs[0], cause)
		}
		close(s.block)
		values, errs := others()
		for i := range values {
			if values[i] != 1 || errs[i] != nil {
				t.Errorf("another got %d, %v", values[i], errs[i])
			}
		}
		wantCalls(t, s, 1)
	})
}

func TestLoaderThatNeverAnswers(t *testing.T) {
	for _, tc := range []struct {
		name string
		load func(release chan struct{}) Loader[id, int]
		want func(error) bool
	}{
		{"panics", func(chan struct{}) Loader[id, int] {
			return func(context.Context, id) (int, error) { panic("secret") }
		}, func(err error) bool {
			var p *PanicError
			return errors.As(err, &p) && p.Value == "secret" && !strings.Contains(err.Error(), "secret") &&
				strings.Contains(string(p.Stack), "TestLoaderThatNeverAnswers")
		}},
		{"panics with nil", func(chan struct{}) Loader[id, int] {
			return func(context.Context, id) (int, error) { panic(nil) } //nolint:govet // on purpose
		}, func(err error) bool { var p *PanicError; return errors.As(err, &p) }},
		{"exits", func(chan struct{}) Loader[id, int] {
			return func(context.Context, id) (int, error) { runtime.Goexit(); return 0, nil }
		}, func(err error) bool { return errors.Is(err, errGone) }},
		{"heeds its time limit", func(chan struct{}) Loader[id, int] {
			return func(ctx context.Context, _ id) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		}, func(err error) bool { return err != nil }},
		{"ignores its time limit", func(release chan struct{}) Loader[id, int] {
			return func(context.Context, id) (int, error) { <-release; return 1, nil }
		}, func(err error) bool { return errors.Is(err, ErrLoadTimeout) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c := mustNew(t, Options{LoadTimeout: time.Second}, tc.load(release))
				start := time.Now()
				_, errs := getMany(t.Context(), c, 20)()
				for _, err := range errs {
					if !tc.want(err) {
						t.Errorf("got %v", err)
					}
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("it took %s", d)
				}
				close(release)
				synctest.Wait()
				if _, ok := c.Peek(alice); ok {
					t.Error("a late answer was stored")
				}
			})
		})
	}
}

func TestMaxLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		var hang atomic.Bool
		c := mustNew(t, Options{MaxLoads: 2, TTL: time.Minute, Stale: time.Hour}, func(ctx context.Context, _ id) (int, error) {
			if hang.Load() {
				<-block
			}
			return 1, nil
		})
		want(t, c, 1, nil)
		time.Sleep(time.Minute)
		hang.Store(true)
		for i := range 2 {
			go func() { _, _ = c.Get(t.Context(), id{"acme", fmt.Sprint(i)}) }()
		}
		synctest.Wait()
		if _, err := c.Get(t.Context(), id{"acme", "new"}); !errors.Is(err, ErrBusy) {
			t.Errorf("a new key: %v, want %v", err, ErrBusy)
		}
		want(t, c, 1, nil) // stale
		time.Sleep(2 * time.Second)
		// The flights are over, but their loaders are not back.
		if _, err := c.Get(t.Context(), id{"acme", "new"}); !errors.Is(err, ErrBusy) {
			t.Errorf("with loaders that hang: %v, want %v", err, ErrBusy)
		}
		close(block)
		synctest.Wait()
		if v, err := c.Get(t.Context(), id{"acme", "new"}); v != 1 || err != nil {
			t.Errorf("in the end: %d, %v", v, err)
		}
	})
}

// Look-ups one after the other are never too many.
func TestMaxLoadsInARow(t *testing.T) {
	s := &source{value: 1}
	c := mustNew(t, Options{MaxLoads: 1}, s.load)
	for range 5000 {
		want(t, c, 1, nil)
		c.Invalidate(alice)
	}
}

// Looking and joining are one step: within its TTL a key is looked up once,
// however callers interleave.
func TestNoSecondLookUp(t *testing.T) {
	for range 300 {
		var calls atomic.Int64
		c := mustNew(t, Options{TTL: time.Hour}, func(context.Context, id) (int, error) {
			return int(calls.Add(1)), nil
		})
		values, _ := getMany(t.Context(), c, 8)()
		for _, v := range values {
			if v != 1 {
				t.Fatalf("the value of look-up %d", v)
			}
		}
	}
}

func TestContextValuesReachTheLoader(t *testing.T) {
	type ctxKey struct{}
	c := mustNew(t, Options{}, func(ctx context.Context, _ id) (any, error) { return ctx.Value(ctxKey{}), nil })
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "trace"), time.Minute)
	defer cancel()
	if v, _ := c.Get(ctx, alice); v != "trace" {
		t.Errorf("the loader saw %v", v)
	}
}

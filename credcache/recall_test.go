package credcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcgate/rpcgate/credcache"
)

func TestRecallTellsWhatIsKnownWithoutALookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looked, broken := 0, false
		c, err := credcache.New(credcache.Options{Entries: 10, TTL: time.Minute, NegativeEntries: 10, NegativeTTL: 5 * time.Second},
			func(_ context.Context, key string) (int, error) {
				looked++
				switch {
				case broken:
					return 0, errors.New("down")
				case key == "none":
					return 0, credcache.ErrNotFound
				}
				return 7, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		check := func(key string, value int, want credcache.Memory) {
			t.Helper()
			before := looked
			if v, m := c.Recall(key); v != value || m != want {
				t.Errorf("Recall(%q) gives %d, %d; want %d, %d", key, v, m, value, want)
			}
			if looked != before {
				t.Error("Recall looks up")
			}
		}
		get := func(key string) { _, _ = c.Get(t.Context(), key) }
		check("some", 0, credcache.Unknown)
		get("some")
		check("some", 7, credcache.Fresh)
		get("none")
		check("none", 0, credcache.Missing)
		time.Sleep(6 * time.Second)
		check("none", 0, credcache.Unknown)
		time.Sleep(2 * time.Minute)
		check("some", 7, credcache.Stale)
		broken = true
		get("other")
		check("other", 0, credcache.Unknown)
		get("some")
		check("some", 7, credcache.Stale)
		c.InvalidateAll()
		check("some", 0, credcache.Unknown)
	})
}

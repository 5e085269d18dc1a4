package credcache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rpcgate/rpcgate/credcache"
)

func ExampleCache() {
	type key struct{ app, token string }
	owners := map[key]string{{"acme", "t1"}: "Ada"}
	cache, err := credcache.New(
		credcache.Options{Entries: 1000, TTL: time.Minute, Stale: time.Hour},
		func(_ context.Context, k key) (string, error) {
			owner, ok := owners[k]
			if !ok {
				return "", fmt.Errorf("owner of %s: %w", k.token, credcache.ErrNotFound)
			}
			return owner, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(cache.Get(ctx, key{"acme", "t1"}))

	delete(owners, key{"acme", "t1"})
	fmt.Println(cache.Get(ctx, key{"acme", "t1"})) // remembered

	cache.Invalidate(key{"acme", "t1"})
	_, err = cache.Get(ctx, key{"acme", "t1"})
	fmt.Println(errors.Is(err, credcache.ErrNotFound))
	// Output:
	// Ada <nil>
	// Ada <nil>
	// true
}

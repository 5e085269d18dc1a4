package tenant

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Imported is a hash that is there once tokens came from zRPC: until then
// gateways ask nothing for a token that does not look like one of rpcgate's own.
func (k Keys) Imported() string { return k.prefix + ":imported" }

const fieldSince = "since"

// Imported tells whether tokens ever came from zRPC.
func Imported(ctx context.Context, rdb redis.UniversalClient, keys Keys) (bool, error) {
	values, err := rdb.HMGet(ctx, keys.Imported(), fieldSince).Result()
	if err != nil {
		return false, fmt.Errorf("ask whether tokens came from zRPC: %w", err)
	}
	return values[0] != nil, nil
}

// noteImported comes before the first such token: one that is not looked for
// would be refused.
func (s *Store) noteImported(ctx context.Context) error {
	return s.rdb.HSetNX(ctx, s.keys.Imported(), fieldSince, s.now().UnixMilli()).Err()
}

package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
)

// ErrUnconfirmed means that what was taken back is so in Redis, and that every
// gateway was told, but that too few replicas have it: if one that has not
// becomes master, Redis forgets it. Doing it again asks them again.
var ErrUnconfirmed = errors.New("done, but not confirmed by enough replicas: a failover now could undo it")

// barrierTTL is how long the key stays that replicas are asked after.
const barrierTTL = time.Minute

// confirmation is how many replicas must have what is taken back, and how long
// that may take.
type confirmation struct {
	replicas int
	timeout  time.Duration
}

func confirmationOf(cfg config.Auth) confirmation {
	return confirmation{cfg.ConfirmReplicas, cmp.Or(cfg.ConfirmTimeout, time.Second)}
}

// Barrier is a key that is written to be waited for.
func (k Keys) Barrier(app string) string { return k.of(app) + "barrier" }

// confirmed waits until enough replicas have what was done for an app before. A
// replica has what the master did in its order, so whoever has a key that is
// written now has all that was written before it. WAIT is about the writes of one
// connection, which is why a script's own cannot be waited for.
func (s *Store) confirmed(ctx context.Context, app string) error {
	if s.confirm.replicas == 0 {
		return nil
	}
	n, err := s.barrier(ctx, app)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	case n < int64(s.confirm.replicas):
		return fmt.Errorf("%w: %d of %d replicas have it", ErrUnconfirmed, n, s.confirm.replicas)
	}
	return nil
}

func (s *Store) barrier(ctx context.Context, app string) (replicas int64, err error) {
	key := s.keys.Barrier(app)
	node, ok := s.rdb.(*redis.Client)
	if cluster, is := s.rdb.(*redis.ClusterClient); is {
		if node, err = cluster.MasterForKey(ctx, key); err != nil {
			return 0, err
		}
	} else if !ok {
		return 0, fmt.Errorf("replicas cannot be asked over a %T", s.rdb)
	}
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.Set(ctx, key, "", barrierTTL).Err(); err != nil {
		return 0, err
	}
	return conn.Wait(ctx, s.confirm.replicas, s.confirm.timeout).Result()
}

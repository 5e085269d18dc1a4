package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rpcgate/rpcgate/config"
)

// Open makes the client for cfg. It does not connect: a Redis that is down shows
// in the client's calls. The errors name the setting that is wrong, or the file
// that cannot be read.
func Open(cfg config.Redis) (redis.UniversalClient, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("redis: no addresses")
	}
	tlsConfig, err := cfg.TLS.Load()
	if err != nil {
		return nil, fmt.Errorf("redis: tls: %w", err)
	}
	o := redis.UniversalOptions{
		Addrs:            cfg.Addresses,
		DB:               cfg.DB,
		MasterName:       cfg.MasterName,
		Username:         cfg.Username,
		Password:         cfg.Password.Reveal(),
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword.Reveal(),
		PoolSize:         cfg.PoolSize,
		DialTimeout:      cfg.DialTimeout,
		ReadTimeout:      cfg.ReadTimeout,
		WriteTimeout:     cfg.WriteTimeout,
		TLSConfig:        tlsConfig,
		Dialer:           newDialer(cfg.DialTimeout, tlsConfig).DialContext,

		// A look-up has its own time limit, and its failures their own back-off:
		// one repetition is for a connection that died while it was idle.
		ContextTimeoutEnabled: true,
		MaxRetries:            1,
		DialerRetries:         1,
		// The plain protocol is all that is needed. Nothing that only describes the
		// client is sent, which an ACL user may have no right to.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch cfg.Mode {
	case "", "single":
		if len(cfg.Addresses) > 1 {
			return nil, fmt.Errorf("redis: mode single has one address, not %d", len(cfg.Addresses))
		}
		return redis.NewClient(o.Simple()), nil
	case "sentinel":
		if cfg.MasterName == "" {
			return nil, errors.New("redis: mode sentinel needs master_name")
		}
		return redis.NewFailoverClient(o.Failover()), nil
	case "cluster":
		if cfg.DB != 0 {
			return nil, errors.New("redis: a cluster has no database but 0")
		}
		return redis.NewClusterClient(clusterOptions(o)), nil
	default:
		return nil, fmt.Errorf("redis: unknown mode %q", cfg.Mode)
	}
}

// clusterOptions are for a client that notices a failover in time. By itself it
// learns of one from the nodes that it asks, and a lost master tells nothing: it
// would be asked for another minute.
func clusterOptions(o redis.UniversalOptions) *redis.ClusterOptions {
	c := o.Cluster()
	c.ClusterStateReloadInterval = time.Second
	return c
}

// RouteRedisLog sends go-redis's own log, which is one for the whole process, to
// log. To be called once, by main.
func RouteRedisLog(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

// Printf implements go-redis's logging interface, which knows no levels.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.WarnContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
}

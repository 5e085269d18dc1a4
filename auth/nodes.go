package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// nodeLife is how long a gateway counts as running after its last sign of life:
// it may miss two.
const nodeLife = 7 * time.Second

// node is this gateway among those that share a Redis.
type node struct {
	id    string
	count atomic.Int64 // of all that run, as last seen; 0: not known
}

// newNodeID names a gateway that has no name in its configuration: by its host,
// for people, and by chance.
func newNodeID() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	host = strings.Map(func(r rune) rune {
		if r < 0x80 && isNodeByte(byte(r)) {
			return r
		}
		return -1
	}, host)
	return cmp.Or(host[:min(len(host), 40)], "gateway") + "-" + strings.ToLower(rand.Text()[:8])
}

func isNodeByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// Node is this gateway's name among those that share a Redis.
func (v *Verifier) Node() string { return v.node.id }

// Nodes is how many gateways share the Redis, this one included, as it was last
// seen; 1 where it never was. It asks nothing.
func (v *Verifier) Nodes() int { return max(1, int(v.node.count.Load())) }

// beatScript goes by Redis' clock alone: those of gateways may differ. Where that
// was put back, what was then is no sign of life.
//
// KEYS: nodes. ARGV: id, how long a node lives, in milliseconds.
func beatScript() *redis.Script {
	return redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[2]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + ARGV[2]), '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])`)
}

// nodesScript lists who runs. KEYS and ARGV but for the id: as beatScript's.
func nodesScript() *redis.Script {
	return redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('%.0f', now - ARGV[1]), string.format('%.0f', now + ARGV[1]))`)
}

// beat gives signs of life until ctx ends, and then takes leave. Without the
// rights to do so the gateway works, and is seen by nobody.
func (v *Verifier) beat(ctx context.Context) {
	failing := false
	for {
		n, err := v.beatOnce(ctx)
		switch {
		case err == nil:
			v.node.count.Store(n)
			failing = false
		case ctx.Err() == nil && !failing:
			failing = true
			v.log.WarnContext(ctx, "other gateways cannot see this one; trying again", "node", v.node.id, "error", err)
		}
		if !sleep(ctx, v.timing.beatInterval) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.timing.leaveTimeout)
	defer cancel()
	_ = v.rdb.ZRem(ctx, v.keys.Nodes(), v.node.id).Err() // it expires all the same
}

func (v *Verifier) beatOnce(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, v.loadTimeout)
	defer cancel()
	return beatScript().Run(ctx, v.rdb, []string{v.keys.Nodes()}, v.node.id, nodeLife.Milliseconds()).Int64()
}

// runningNodes lists the gateways that gave a sign of life lately.
func runningNodes(ctx context.Context, rdb redis.UniversalClient, keys tenant.Keys) ([]string, error) {
	return nodesScript().Run(ctx, rdb, []string{keys.Nodes()}, nodeLife.Milliseconds()).StringSlice()
}

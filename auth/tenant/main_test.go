package tenant

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// limit is how long a test waits for what must come, on the busiest machine.
const limit = time.Minute

// connect makes a client of the server at addr, patient: the machine may be busy.
func connect(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, PoolTimeout: limit,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// startRedis gives a client of a server of its own.
func startRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	return connect(t, redistest.Start(t, redistest.Options{}).Addr)
}

// startCluster gives a client of a cluster of its own.
func startCluster(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: redistest.StartCluster(t).Addrs(), DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, PoolTimeout: limit,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newStore is a store in this process, with what Redis was told to publish.
func newStore(t *testing.T) (*Store, *messages) {
	t.Helper()
	s := NewStore(connect(t, miniredis.RunT(t).Addr()), config.Auth{})
	return s, listen(t, s)
}

// messages are those that were published.
type messages struct {
	t   *testing.T
	ch  <-chan *redis.Message
	rdb redis.UniversalClient
	end string
}

func listen(t *testing.T, s *Store) *messages {
	t.Helper()
	sub := s.rdb.Subscribe(t.Context(), s.keys.Revocations())
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &messages{t, sub.Channel(redis.WithChannelSize(10_000)), s.rdb, s.keys.Revocations()}
}

// all are the messages so far, since it was last asked for them.
func (m *messages) all() (texts []string) {
	m.t.Helper()
	if err := m.rdb.Publish(m.t.Context(), m.end, "end").Err(); err != nil {
		m.t.Fatal(err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case got := <-m.ch:
			if got.Payload == "end" {
				return texts
			}
			texts = append(texts, got.Payload)
		case <-timer.C:
			m.t.Fatal("what was published does not come")
		}
	}
}

// repeat has each script run twice, as when the first answer is lost with its
// connection.
type repeat struct{}

func (repeat) DialHook(next redis.DialHook) redis.DialHook { return next }

func (repeat) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" || cmd.Name() == "evalsha" {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (repeat) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func ptr[T any](v T) *T { return &v }

// must gives what a call gave, or fails the test with its error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// err1 is the error of a call with two results.
func err1[T any](_ T, err error) error { return err }

// atOnce runs f in n goroutines, and waits for them.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// cancelAt cancels when a command is about to be run for the n-th time.
type cancelAt struct {
	repeat
	cancel  context.CancelFunc
	command string
	n       *int
}

func (c cancelAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == c.command {
			if *c.n--; *c.n == 0 {
				c.cancel()
			}
		}
		return next(ctx, cmd)
	}
}

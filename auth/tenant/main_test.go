package tenant

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

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
		Addr: addr, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
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

package auth

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// parrot is a server that has one answer to every command.
func parrot(t *testing.T, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				for r := bufio.NewReader(c); skipCommand(r) == nil; {
					if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// skipCommand reads one command: an array of strings.
func skipCommand(r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	for range 2 * n {
		if _, err := r.ReadString('\n'); err != nil {
			return err
		}
	}
	return err
}

// Whatever Redis says other than what it has, is that it cannot be asked, and
// never that there is no such token.
func TestErrorsOfRedisAreNoAnswers(t *testing.T) {
	text, _ := tenant.NewToken()
	for _, answer := range []string{
		"-LOADING Redis is loading the dataset in memory",
		"-READONLY You can't write against a read only replica.",
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"-CLUSTERDOWN The cluster is down",
		"-TRYAGAIN Multiple keys request during rehashing of slot",
		"-MOVED 3999 127.0.0.1:1",
		"-ASK 3999 127.0.0.1:1",
		"-CROSSSLOT Keys in request don't hash to the same slot",
		"-NOSCRIPT No matching script. Please use EVAL.",
		"-BUSY Redis is busy running a script.",
		"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"-OOM command not allowed when used memory > 'maxmemory'.",
		"-NOAUTH Authentication required.",
		"-WRONGPASS invalid username-password pair or user is disabled.",
		"-NOPERM this user has no permissions to run the 'hmget' command",
		"-NOREPLICAS Not enough good replicas to write.",
		"-WRONGTYPE Operation against a key holding the wrong kind of value",
		"-ERR unknown command",
		"-ERR max number of clients reached",
		"+OK",
		":0",
		"$-1",
		"*1\r\n$-1",
		"nonsense",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			for name, cfg := range map[string]config.Auth{"hashed": {}, "gozero": goZero()} {
				if name == "gozero" && (answer == "$-1" || answer == "+OK") {
					continue // that is its answer
				}
				rdb := open(t, config.Redis{
					Addresses: []string{parrot(t, answer)}, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
				})
				g := newGateway(t, rdb, cfg)
				g.verify(t, Credential{"acme", text}, ErrUnavailable)
				if err := g.probe(t.Context()); err == nil {
					t.Errorf("%s: the store is taken for well", name)
				} else if strings.Contains(err.Error(), "app "+nobody) {
					t.Errorf("%s: the log would speak of an app that there is not: %v", name, err)
				}
			}
		})
	}
}

// A gateway that starts before Redis knows that, and serves within a second of
// its coming, however often it has tried.
func TestRedisComesLater(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	cfg := config.Redis{Addresses: []string{server.addr}, PoolSize: 2, DialTimeout: soon, ReadTimeout: soon, WriteTimeout: soon}
	server.kill()
	g := startGateway(t, open(t, cfg), config.Auth{Cache: config.CredentialCache{ErrorTTL: time.Hour}})
	text, _ := tenant.NewToken()
	unknown := Credential{"acme", text}
	for start := time.Now(); time.Since(start) < soon; {
		g.verify(t, unknown, ErrUnavailable)
		if s := g.Store(); s.Reached || s.Answers {
			t.Fatalf("the store is %+v", s)
		}
	}
	server.restart()
	within(t, soon, "serving", g.refuses(t, unknown, ErrInvalid))
	if s := g.Store(); !s.Reached || !s.Answers {
		t.Errorf("the store is %+v", s)
	}
	server.kill()
	eventually(t, "noticing its loss", func() bool { return !g.Store().Answers })
	if !g.Store().Reached {
		t.Error("it was reached, and is not any more")
	}
}

// A token that is issued while its look-ups fail, or find nothing, is good as
// soon as that is known: no remembered failure or miss outlives it.
func TestIssuedAfterItWasAskedFor(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	g := startGateway(t, rdb, config.Auth{Cache: config.CredentialCache{NegativeTTL: 300 * time.Millisecond}})
	g.hearing(t)
	issued := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
	key := "rpcgate:{acme}:token:" + issued.ID
	record, err := rdb.Dump(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	rdb.Del(t.Context(), key)
	g.verify(t, credential(issued), ErrInvalid)
	if err := rdb.Restore(t.Context(), key, 0, record).Err(); err != nil {
		t.Fatal(err)
	}
	// As an import does that tells of it.
	rdb.Publish(t.Context(), "rpcgate:revocations", "changed acme "+issued.ID)
	within(t, soon, "the token", func() bool {
		_, err := g.Verify(t.Context(), credential(issued))
		return err == nil
	})
}

func TestEvictionIsWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		warn bool
	}{
		"as it comes":        {nil, false},
		"full without loss":  {[]string{"--maxmemory", "100mb"}, false},
		"evicting":           {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, true},
		"evicting what ends": {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, true},
		"never full":         {[]string{"--maxmemory-policy", "allkeys-lru"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, startRedis(t, tc.args...).client(), config.Auth{})
			eventually(t, "the answer", func() bool { return g.Store().Answers })
			want := 0.0
			if tc.warn {
				want = 1
				eventually(t, "the warning", func() bool { return strings.Contains(g.log.String(), "noeviction") })
			}
			if got := gaugeValue(g.metrics.storeEvicts); got != want {
				t.Errorf("the metric is %v", got)
			}
		})
	}
}

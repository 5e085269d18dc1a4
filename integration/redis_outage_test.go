package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

const (
	shortTTL    = 200 * time.Millisecond
	shortStale  = 2 * time.Second
	shortLoad   = 300 * time.Millisecond
	shortMemory = "cache: {ttl: 200ms, stale: 2s, negative_ttl: 200ms, load_timeout: 300ms}"

	// slack is what a loaded machine may add to a time limit.
	slack = time.Second
)

// While Redis is away: who was verified of late goes on being served, who was
// not gets 503, and nobody gets in who would not otherwise. How long "of late" is
// depends on the mode.
func TestFault9RedisAway(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name        string
		begin, mend func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart},
		{"paused", (*redistest.Server).Pause, (*redistest.Server).Resume},
	}
	for _, mode := range []string{"strict", "lenient"} {
		for _, fault := range faults {
			t.Run(mode+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{Persist: true})
				unseen := issueToken(t, server.Addr, tenant.IssueOptions{App: "late"}).Secret
				b := testbackend.Start(t)
				r := startRig(t, server, "", echoConfig(b, "")+"auth: {mode: "+mode+", "+shortMemory+"}\n")
				must(t, r.echoing())
				b.Take()

				fault.begin(server)
				began := time.Now()
				refused := map[string]callFunc{
					"never seen": r.echoingAs("late", unseen),
					"unknown":    r.echoingAs("nobody", madeUpToken(1)),
				}
				for name, call := range refused {
					unavailable(t, name, call)
				}
				ends(t, r.echoingAs(r.app, otherSecret(r.token)), "TOKEN_INVALID") // its id is known
				ends(t, r.echoingAs(r.app, "made-up"), "TOKEN_INVALID")
				untouched(t, b)

				seen := func() (time.Duration, error) {
					at := time.Now()
					err := inTime(r.echoing(), shortLoad+slack)(limited(t))
					return at.Sub(began), err
				}
				for {
					after, err := seen()
					if err != nil && after < shortStale-shortTTL {
						t.Fatalf("a credential that was just in use was refused %v into the outage: %v", after, err)
					}
					if mode == "strict" && err != nil {
						if got := reasonFor(err); got != "AUTH_UNAVAILABLE" {
							t.Fatalf("after the stale time: %s", got)
						}
						break
					}
					if mode == "lenient" && after > shortTTL+shortStale+500*time.Millisecond {
						break // long after strict would have ended it
					}
					if after > testLimit {
						t.Fatalf("%s mode still serves from memory after %v", mode, after)
					}
				}
				for name, call := range refused {
					unavailable(t, name, call)
				}

				fault.mend(server)
				mended := time.Now()
				comesTo(t, r.echoing(), "OK")
				comesTo(t, r.echoingAs("late", unseen), "OK")
				comesTo(t, r.echoingAs("nobody", madeUpToken(1)), "TOKEN_INVALID")
				if took := time.Since(mended); took > 3*time.Second {
					t.Errorf("it took %v to recover", took)
				}
			})
		}
	}
}

// unavailable checks that a credential is neither accepted nor called wrong, and
// that the answer says to come again, in time.
func unavailable(t *testing.T, name string, call callFunc) {
	t.Helper()
	err := inTime(call, shortLoad+slack)(limited(t))
	var refused *refusal
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || refused.reason != "AUTH_UNAVAILABLE" {
		t.Fatalf("%s credential: %v, want 503 AUTH_UNAVAILABLE", name, err)
	}
	if refused.Header.Get("Retry-After") == "" {
		t.Errorf("%s credential: no Retry-After", name)
	}
}

// inTime makes a call that takes too long an error.
func inTime(call callFunc, limit time.Duration) callFunc {
	return func(ctx context.Context) error {
		began := time.Now()
		err := call(ctx)
		if took := time.Since(began); took > limit {
			return fmt.Errorf("took %v, more than %v: %w", took, limit, errors.Join(err))
		}
		return err
	}
}

// A Redis that lost its data knows nobody, and says so also of credentials that
// are in memory for minutes to come.
func TestFault9EmptyRedisRefusesEverything(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "lenient"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			unseen := issueToken(t, server.Addr, tenant.IssueOptions{App: "late"}).Secret
			b := testbackend.Start(t)
			r := startRig(t, server, "", echoConfig(b, "")+"auth: {mode: "+mode+"}\n")
			must(t, r.echoing())
			server.Restart()
			comesTo(t, r.echoing(), "TOKEN_INVALID")
			comesTo(t, r.echoingAs("late", unseen), "TOKEN_INVALID")
			b.Take()
			stays(t, 300*time.Millisecond, func() error {
				if got := reasonFor(r.echoing()(limited(t))); got != "TOKEN_INVALID" {
					return fmt.Errorf("the call ended with %s", got)
				}
				return nil
			})
			untouched(t, b)

			r.token = issueToken(t, server.Addr, tenant.IssueOptions{App: r.app}).Secret
			must(t, r.echoing())
		})
	}
}

func TestSlowRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	network := startProxy(t, server.Addr)
	b := testbackend.Start(t)
	r := startRig(t, server, fmt.Sprintf("addresses: [%q]", network.Addr), echoConfig(b, "")+"auth: {"+shortMemory+"}\n"+quiet)
	must(t, r.echoing())

	// Within the limit of a look-up it is only slow.
	network.Slow(20 * time.Millisecond)
	must(t, r.echoingAs("slow", issueToken(t, server.Addr, tenant.IssueOptions{App: "slow"}).Secret))

	// Beyond it, it is as good as away, and the known are not held up by it.
	callers := startLoad(t, 4, r.echoing())
	network.Slow(2 * shortLoad)
	late := issueToken(t, server.Addr, tenant.IssueOptions{App: "late"}).Secret
	unavailable(t, "never seen", r.echoingAs("late", late))
	callers.awaitMore(100)
	network.Mend()
	comesTo(t, r.echoingAs("late", late), "OK")
	callers.stop()
	callers.only()
	if callers.slowest > shortLoad+slack {
		t.Errorf("the slowest call took %v", callers.slowest)
	}
}

// One look-up serves all who wait for it. Those that give up must not take the
// others with them.
func TestOneCallersEndFailsNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	b := testbackend.Start(t)
	r := startRig(t, server, fmt.Sprintf("addresses: [%q], read_timeout: 20s", server.Addr),
		echoConfig(b, "timeout: 30s")+"auth: {cache: {load_timeout: 20s}}\n")
	server.Pause()

	const n = 3 // callers of each kind
	inFlight := func(want float64) {
		t.Helper()
		gatewaytest.Eventually(t, func() error {
			if got := r.Metric("rpcgate_calls_in_flight"); got != want {
				return fmt.Errorf("%v calls in flight, want %v", got, want)
			}
			return nil
		})
	}
	patient := make(chan error, 2*n)
	ctx, hangUp := context.WithCancel(t.Context())
	hurried := make(chan error, 3*n)
	// The one that starts the look-up is among those that leave.
	// (By GET: net/http notices that a caller hung up once its body was read.)
	go func() { hurried <- r.getting("/v1/echo?text=hello")(ctx) }()
	inFlight(1)
	for range n {
		go func() { patient <- r.echoing()(limited(t)) }()
		go func() { patient <- r.invoking(r.conn)(limited(t)) }()
		go func() { hurried <- r.invoking(r.conn)(ctx) }()
	}
	inFlight(1 + 3*n)
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := r.invoking(r.conn)(ctx); !strings.Contains(err.Error(), "DeadlineExceeded") {
			t.Errorf("the caller's deadline passed, and it was told: %v", err)
		}
		cancel()
	}
	hangUp()
	for range 1 + n {
		if err := <-hurried; err == nil {
			t.Error("a call succeeded while Redis was paused")
		}
	}
	inFlight(2 * n)
	server.Resume()
	for range 2 * n {
		if err := <-patient; err != nil {
			t.Errorf("a caller that waited was told: %v", err)
		}
	}
}

package integration_test

import (
	"net"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/ledger"
	"github.com/rpcgate/rpcgate/integration/netns"
)

// Faults of packets, by a network namespace and iptables. They need root: others
// have those of faults_proxy_test.go.

// inNetwork starts n backends, the first of them in a network of its own, and a
// gateway before them.
func inNetwork(t *testing.T, n int, settings string, args ...string) (*ledgerRig, *netns.Network) {
	t.Helper()
	network := netns.New(t)
	backends := []*ledger.Backend{ledger.Start(t, ledger.Options{
		Name: "e0", Addr: net.JoinHostPort(network.IP, "7000"), Via: network.Via(), Args: args,
	})}
	return beforeLedgers(t, append(backends, startLedgers(t, n, args...)[1:]...), settings), network
}

// All packets to and from one endpoint of three vanish for a while, and it comes
// back with its connections as they were: no call that may be repeated is lost,
// few wait for an attempt's time to run out, none that may not is executed twice.
func TestPacketsVanish(t *testing.T) {
	t.Parallel()
	r, network := inNetwork(t, 3, swift)
	callers := startLoad(t, 8, r.looking())
	awaitCalled(t, r.backends[0], 20)
	r.since()
	network.Silence()
	stays(t, 3*time.Second, callers.unharmed)
	network.Restore()
	awaitCalled(t, r.backends[0], 20)
	callers.stop()
	callers.only()
	fewWaited(t, r)
}

// One packet in fifty is lost, in either direction, at one endpoint of three. TCP
// sends it again: no call is lost, whether it may be repeated or not, and nine
// calls of ten wait for no packet (TCP does for 200ms at least).
func TestPacketsLost(t *testing.T) {
	t.Parallel()
	r, network := inNetwork(t, 3, "timeout: 5s\nbalancer: {slow_start: 0s}")
	network.Lose(0.02)
	callers := startLoad(t, 8, r.looking(), r.booking())
	awaitCalled(t, r.backends[0], 100)
	callers.awaitMore(1000)
	callers.stop()
	callers.only()
	r.executedOnce(t)
	times, _ := r.since()
	if p90 := percentile(times, 0.9); p90 > 200*time.Millisecond {
		t.Errorf("a tenth of the calls took %v or more", p90)
	}
}

// Every packet to one endpoint of three is answered with a reset: the connections
// that are open break, and no new one is made. No call that may be repeated is
// lost, and none that may not is executed twice.
func TestPacketsReset(t *testing.T) {
	t.Parallel()
	r, network := inNetwork(t, 3, lively, "--work", "5ms")
	repeatable := startLoad(t, 4, r.looking(), r.lookingJSON())
	others := startLoad(t, 4, r.booking())
	for range 3 {
		network.Reset()
		repeatable.awaitMore(200)
		network.Restore()
		awaitCalled(t, r.backends[0], 20)
	}
	repeatable.stop()
	others.stop()
	onlyFailed(t, repeatable, others, 12) // four callers, three times
	r.executedOnce(t)
}

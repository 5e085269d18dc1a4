package limits_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
)

var guessing = config.Guessing{PerAddress: 60, PerApp: 600, Per: time.Minute}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// botAddress is one of many addresses of IPv4.
func botAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// try makes an attempt that fails, if it is allowed.
func try(g *limits.Guesses, now time.Time, from netip.Addr, app string) bool {
	_, ok := g.Allow(now, from, app)
	if ok {
		g.Failed(now, from, app)
	}
	return ok
}

func TestFailuresOfAnAddressAreBounded(t *testing.T) {
	t.Parallel()
	g := limits.NewGuesses(guessing)
	now := time.Now()
	from := addr("192.0.2.1")
	allowed := 0
	for i := range 1000 {
		if try(g, now, from, "app"+strconv.Itoa(i)) {
			allowed++
		}
	}
	if allowed != 60 {
		t.Errorf("%d failures at once, want 60", allowed)
	}
	wait, ok := g.Allow(now, from, "x")
	if ok || wait <= 0 || wait > time.Second {
		t.Errorf("Allow gives %v, %v; want a wait of up to a second", wait, ok)
	}
	for _, other := range []string{"192.0.2.2", "2001:db8::1"} {
		if _, ok := g.Allow(now, addr(other), "x"); !ok {
			t.Errorf("%s has to pay for %s", other, from)
		}
	}
	allowed = 0
	for range 600 { // a minute
		now = now.Add(100 * time.Millisecond)
		if try(g, now, from, "x") {
			allowed++
		}
	}
	if allowed < 59 || allowed > 61 {
		t.Errorf("%d failures in the minute after, want 60", allowed)
	}
	if _, ok := g.Allow(now.Add(2*time.Minute), from, "x"); !ok {
		t.Error("who has rested is not let in")
	}
}

func TestAttemptsAtOnceAllCount(t *testing.T) {
	t.Parallel()
	g := limits.NewGuesses(guessing)
	now := time.Now()
	from := addr("192.0.2.1")
	for range 100_000 { // all allowed before the first had failed
		g.Failed(now, from, "app")
	}
	if wait, ok := g.Allow(now, from, "other"); ok || wait < time.Minute || wait > time.Minute+time.Second {
		t.Errorf("Allow gives %v, %v; want to wait a minute, and not for ever", wait, ok)
	}
}

func TestAddressesThatCountAsOne(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8::1", "2001:db8::ffff:1:2:3", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"0.0.0.0", "::", false},
		{"2001:db8::1%eth0", "2001:db8::1%eth1", true},
	} {
		g := limits.NewGuesses(guessing)
		now := time.Now()
		for range 60 {
			g.Failed(now, addr(tc.a), "app")
		}
		if _, ok := g.Allow(now, addr(tc.b), "app"); ok == tc.same {
			t.Errorf("after failures from %s, %s is let in: %v", tc.a, tc.b, ok)
		}
	}
	g := limits.NewGuesses(guessing)
	for range 60 {
		g.Failed(time.Now(), netip.Addr{}, "app")
	}
	if _, ok := g.Allow(time.Now(), netip.Addr{}, "app"); ok {
		t.Error("callers without an address are not bounded")
	}
}

// 10,000 addresses try one app id: what they may is bounded, and who is none of
// them gets in at every moment.
func TestManyAddressesDoNotShutAnAppOut(t *testing.T) {
	t.Parallel()
	g := limits.NewGuesses(guessing)
	start := time.Now()
	const bots = 10_000
	attempts := 0
	good := 0
	for second := range 120 {
		now := start.Add(time.Duration(second) * time.Second)
		for i := range bots {
			if try(g, now, botAddress(i), "acme") {
				attempts++
			}
			if i%1000 != 0 {
				continue
			}
			newcomer := addr(fmt.Sprintf("172.16.%d.%d", second, good%250))
			good++
			if _, ok := g.Allow(now, newcomer, "acme"); !ok {
				t.Fatalf("second %d: a caller from an address that has not failed is kept out", second)
			}
		}
	}
	// Each bot once, and beside that what one app id may be tried.
	if most := bots + 2*600 + 600; attempts > most {
		t.Errorf("%d attempts reached Redis in two minutes, want at most %d", attempts, most)
	}
	if _, ok := g.Allow(start.Add(time.Second), addr("172.16.0.1"), "other"); !ok {
		t.Error("another app has to pay")
	}
}

// With no end of addresses an attacker gets as far as the bound for new ones.
func TestNewAddressesAreBounded(t *testing.T) {
	t.Parallel()
	g := limits.NewGuesses(guessing)
	start := time.Now()
	attempts := 0
	for second := range 60 {
		now := start.Add(time.Duration(second) * time.Second)
		for i := range 5000 {
			if try(g, now, botAddress(second*5000+i), "acme") {
				attempts++
			}
		}
	}
	if most := 2 * 21 * 600; attempts > most || attempts < 20*600 {
		t.Errorf("%d attempts in a minute, want between %d and %d", attempts, 20*600, most)
	}
}

func TestGuessesMayBeOff(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		cfg              config.Guessing
		byAddress, byApp bool
	}{
		"all off":    {config.Guessing{Per: time.Minute}, false, false},
		"zero value": {config.Guessing{}, false, false},
		"by address": {config.Guessing{PerAddress: 10, Per: time.Minute}, true, false},
		"by app":     {config.Guessing{PerApp: 10, Per: time.Minute}, false, true},
	} {
		g := limits.NewGuesses(tc.cfg)
		for range 1000 {
			g.Failed(now, addr("192.0.2.1"), "app")
		}
		if _, ok := g.Allow(now, addr("192.0.2.1"), "other"); ok == tc.byAddress {
			t.Errorf("%s: by address: %v", name, !ok)
		}
		for i := range 1000 {
			g.Failed(now, botAddress(i), "app")
		}
		if _, ok := g.Allow(now, botAddress(1), "app"); ok == (tc.byApp) {
			t.Errorf("%s: by app: %v", name, !ok)
		}
	}
}

// A flood of addresses and ids takes no memory, and does not make room for who
// fails much.
func TestAFloodTakesNoMemory(t *testing.T) {
	g := limits.NewGuesses(guessing)
	now := time.Now()
	for range 200 {
		g.Failed(now, addr("192.0.2.1"), "acme")
	}
	i := 0
	if n := testing.AllocsPerRun(200_000, func() {
		i++
		g.Allow(now, botAddress(i), "acme")
		g.Failed(now, botAddress(i), "acme")
	}); n != 0 {
		t.Errorf("%v allocations an attempt", n)
	}
	if _, ok := g.Allow(now, addr("192.0.2.1"), "x"); ok {
		t.Error("a flood of other addresses has made one be forgotten that failed much")
	}
}

func BenchmarkGuesses(b *testing.B) {
	g := limits.NewGuesses(guessing)
	now := time.Now()
	from := addr("192.0.2.1")
	b.Run("refused", func(b *testing.B) {
		for range 200 {
			g.Failed(now, from, "acme")
		}
		b.ReportAllocs()
		for b.Loop() {
			g.Allow(now, from, "acme")
		}
	})
}

package limits

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Guesses bounds how often credentials may be tried in vain, by source address
// and by app id. Only attempts with credentials that are not known to be good are
// to ask it: so whoever fails, and in whoever's name, keeps no known credential
// from passing.
//
// That somebody fails in an app's name must not shut the app out either, since
// anybody can. When an app id has had its failures, it may still be tried from
// addresses that have not failed for a while, as a new caller of the app's has
// not. Those, too, are bounded, by more than a botnet of ordinary size has
// addresses.
//
// Failures are counted by the GCRA (ITU-T I.371, annex A) in tables of a fixed
// size. Where there is no room, those who failed least are forgotten. Neither
// addresses nor ids are kept, only hashes of them by a secret seed.
type Guesses struct {
	addresses, apps, newcomers rate
	remember                   int64 // for how long an address counts as one that failed, in ns

	start     time.Time
	seed      maphash.Seed
	byAddress table
	byApp     table
	byNew     table
}

const (
	newcomersShare = 20 // how much more often than from anywhere an app may be tried from new addresses
	rememberPeriod = 10 // periods

	addressBuckets = 1 << 13
	appBuckets     = 1 << 11
	ways           = 8 // slots of a bucket
)

// NewGuesses makes a guard that nobody has failed at; nil where cfg bounds
// nothing. A nil guard lets everybody pass.
func NewGuesses(cfg config.Guessing) *Guesses {
	if cfg.PerAddress == 0 && cfg.PerApp == 0 || cfg.Per <= 0 {
		return nil
	}
	return &Guesses{
		addresses: newRate(cfg.PerAddress, cfg.Per),
		apps:      newRate(cfg.PerApp, cfg.Per),
		newcomers: newRate(cfg.PerApp*newcomersShare, cfg.Per),
		remember:  rememberPeriod * int64(cfg.Per),
		start:     time.Now(),
		seed:      maphash.MakeSeed(),
		byAddress: newTable(addressBuckets),
		byApp:     newTable(appBuckets),
		byNew:     newTable(appBuckets),
	}
}

// Allow tells whether a credential of an app, as it is claimed, may be tried from
// an address, and otherwise when to come again. An address that is not valid, as
// a Unix socket's peer has none, counts as one.
func (g *Guesses) Allow(now time.Time, from netip.Addr, app string) (wait time.Duration, ok bool) {
	if g == nil {
		return 0, true
	}
	t := g.since(now)
	address := g.byAddress.get(g.address(from))
	if wait := g.addresses.wait(t, address.until); wait > 0 {
		return wait, false
	}
	id := maphash.String(g.seed, app)
	wait = g.apps.wait(t, g.byApp.get(id).until)
	if wait <= 0 {
		return 0, true
	}
	if t-address.last < g.remember && address.last != 0 {
		return wait, false
	}
	wait = g.newcomers.wait(t, g.byNew.get(id).until)
	return wait, wait <= 0
}

// Failed notes that a credential was tried that is no app's.
func (g *Guesses) Failed(now time.Time, from netip.Addr, app string) {
	if g == nil {
		return
	}
	t := g.since(now)
	id := maphash.String(g.seed, app)
	if g.apps.wait(t, g.byApp.get(id).until) > 0 {
		g.byNew.fail(id, t, g.newcomers)
	} else {
		g.byApp.fail(id, t, g.apps)
	}
	g.byAddress.fail(g.address(from), t, g.addresses)
}

// since tells the time by the monotonic clock, and is never 0. By one that was set
// back, who failed just before would have to wait as long as that.
func (g *Guesses) since(now time.Time) int64 { return int64(now.Sub(g.start)) + 1 }

// address is the hash of what counts as one source: who has one address of IPv6
// has 2⁶⁴ of them.
func (g *Guesses) address(from netip.Addr) uint64 {
	var b [17]byte
	from = from.Unmap()
	switch {
	case from.Is4():
		b[16] = 4
		a := from.As4()
		copy(b[:], a[:])
	case from.Is6():
		b[16] = 6
		a := from.As16()
		copy(b[:8], a[:8])
	}
	return maphash.Bytes(g.seed, b[:])
}

// rate is how many failures there may be. As the GCRA has it, each takes some
// time, and who has used up a period is over it.
type rate struct{ each, period int64 } // ns; each 0: no limit

func newRate(n int, per time.Duration) rate {
	if n <= 0 {
		return rate{}
	}
	return rate{each: max(1, int64(per)/int64(n)), period: int64(per)}
}

// wait is how long who has used up the time until some instant has to wait for
// another attempt; not positive: not at all.
func (r rate) wait(now, until int64) time.Duration {
	if r.each == 0 {
		return 0
	}
	return time.Duration(until + r.each - r.period - now)
}

// after is what was used up after another failure. Attempts that were made at
// once, before the first of them was known to fail, all count; but nobody gets
// further behind than by a period.
func (r rate) after(now, until int64) int64 {
	return min(max(until, now)+r.each, now+2*r.period)
}

// table remembers who failed. Each hash has its bucket, in which there is room
// for a few.
type table struct{ buckets []guessBucket }

type guessBucket struct {
	mu    sync.Mutex
	slots [ways]guessSlot
}

// guessSlot is what is remembered of one who failed. Instants are in ns since the start.
type guessSlot struct {
	hash  uint64
	until int64 // what the failures have used up
	last  int64 // when the latest was; 0: the slot is free
}

func newTable(n int) table { return table{make([]guessBucket, n)} }

func (t table) bucket(hash uint64) *guessBucket {
	return &t.buckets[hash%uint64(len(t.buckets))]
}

func (t table) get(hash uint64) guessSlot {
	b := t.bucket(hash)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.slots {
		if s := &b.slots[i]; s.hash == hash && s.last != 0 {
			return *s
		}
	}
	return guessSlot{}
}

func (t table) fail(hash uint64, now int64, r rate) {
	b := t.bucket(hash)
	b.mu.Lock()
	defer b.mu.Unlock()
	slot := &b.slots[0]
	for i := range b.slots {
		s := &b.slots[i]
		if s.hash == hash && s.last != 0 {
			slot = s
			break
		}
		if s.until < slot.until {
			slot = s
		}
	}
	if slot.hash != hash {
		*slot = guessSlot{hash: hash}
	}
	slot.until, slot.last = r.after(now, slot.until), now
}

package rpcproxy

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/config"
)

// Pool holds a backend's client connections, one per key. How much of a
// credential is the key says [config.Pool].Key.
//
// There are at most MaxConns live connections; a new one beyond that retires
// the least recently used. At most as many again may be draining: retired, with
// calls that go on. Beyond that Acquire fails with [ErrPoolFull].
//
// A retired connection takes no new calls and is closed by its last lease, or
// at the drain limit, which cuts its calls off.
//
// A hit costs a hash of the key and a few atomic operations. Recency is kept as
// a time stamp in the entry, not as a place in a list, because moving an entry
// to the front of a list takes a lock. The list is put in order only when room
// is needed: an entry that was used since it was last looked at gets a second
// chance (CLOCK), which is LRU as of the last look.
type Pool struct {
	cfg   config.Pool
	dial  dialFunc
	obs   poolObserver
	epoch time.Time
	table *table

	// mu is held by everything but hits. Making a ClientConn under it is what
	// makes one of many callers dial: it does no I/O (grpc-go resolves and
	// connects in the background), so that nobody waits for anybody's network.
	mu       sync.Mutex
	recency  *list.List // of live *entry; front: most recently looked at
	draining map[*entry]struct{}
	byApp    apps          // live and draining
	closing  int           // entries whose connection is being closed
	line     list.List     // of chan struct{}: who waits for one of them to be closed
	closed   bool          // no new entries
	sweep    *time.Timer   // looks for idle entries; nil without idle timeout
	empty    chan struct{} // closed when closed is set and no entry is left
}

// maxClosing is how many connections may be being closed, which takes grpc-go
// some seconds where the peer does not read, when one more is evicted: who needs
// the room waits for it. What expires or is revoked may go beyond it.
const maxClosing = 256

// maxLooks is how many entries are looked at, at most, for one that makes room,
// while whoever needs any new connection waits: some tenths of a millisecond.
const maxLooks = 4096

// poolObserver is told what happens, under the pool's lock.
type poolObserver struct {
	dialed  func(err error)
	retired func(reason)
}

// dialFunc makes the connection of a key, without waiting for it. It goes to the
// key's endpoint or, if that is empty, to whichever the balancer chooses. It
// carries nobody's credential; the app is whose turn it is to connect.
type dialFunc func(*connKey) (*grpc.ClientConn, error)

// newPool makes a pool.
func newPool(cfg config.Pool, dial dialFunc, obs poolObserver) (*Pool, error) {
	switch cfg.Key {
	case "credential", "app", "shared":
	default:
		return nil, fmt.Errorf("pool key %q is not known: credential, app or shared", cfg.Key)
	}
	if cfg.MaxConns < 1 {
		return nil, fmt.Errorf("pool: max_conns must be at least 1, not %d", cfg.MaxConns)
	}
	p := &Pool{
		cfg: cfg, dial: dial, obs: obs, epoch: time.Now(), table: newTable(),
		recency: list.New(), draining: map[*entry]struct{}{}, byApp: apps{}, empty: make(chan struct{}),
	}
	if cfg.IdleTimeout > 0 {
		p.mu.Lock() // the timer may fire before it is assigned
		defer p.mu.Unlock()
		p.sweep = time.AfterFunc(cfg.IdleTimeout, p.expireIdle)
	}
	return p, nil
}

// now is the pool's clock.
func (p *Pool) now() int64 { return int64(time.Since(p.epoch)) }

// keyOf is the part of a credential that tells connections apart. The zero
// credential has a connection of its own, without credentials.
func (p *Pool) keyOf(c Credential) Credential {
	switch p.cfg.Key {
	case "app":
		return Credential{App: c.App}
	case "shared":
		return Credential{}
	default:
		return c
	}
}

// Acquire gives the connection for a credential, new if need be. It does not
// wait for it to be connected. It waits while as many others as may be are being
// closed to make room, until ctx is done.
func (p *Pool) Acquire(ctx context.Context, c Credential) (Lease, error) {
	return p.acquireAt(ctx, c, "")
}

// acquireAt is Acquire for a connection that goes to one endpoint.
func (p *Pool) acquireAt(ctx context.Context, c Credential, endpoint string) (Lease, error) {
	key := connKey{p.keyOf(c), endpoint}
	hash := p.table.hash(&key)
	if e := p.table.get(hash, &key); e != nil && e.acquire() {
		return Lease{e}, nil
	}
	return p.acquireNew(ctx, hash, key)
}

// acquireNew is what acquireAt does where there is no connection yet. It takes the
// key by value: that of a hit stays on the stack.
func (p *Pool) acquireNew(ctx context.Context, hash uint64, key connKey) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return Lease{}, err // the caller is gone: dial nothing for it
	}
	for waited := false; ; waited = true {
		e, dialed, place, err := p.add(hash, &key, waited)
		switch {
		case err != nil:
			return Lease{}, err
		case place == nil:
			if dialed {
				e.conn.Connect()
			}
			return Lease{e}, nil
		}
		select {
		case <-place.Value.(chan struct{}):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			p.leaveLine(place)
			return Lease{}, fmt.Errorf("%w: %d connections are being closed", ErrPoolFull, maxClosing)
		}
	}
}

// add returns the entry of the key, acquired. It looks again under the lock: of
// many callers that all missed, the first one dials and the others find its
// entry. Without room it gives a place in the line for it: in front for who has
// waited, and was overtaken.
func (p *Pool) add(hash uint64, key *connKey, waited bool) (_ *entry, dialed bool, place *list.Element, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if place == nil {
			p.nextLocked() // what was waited for may not have been needed
		}
	}()
	if p.closed {
		return nil, false, nil, ErrClosed
	}
	if e := p.table.get(hash, key); e != nil && e.acquire() {
		return e, false, nil, nil
	}
	switch wait, err := p.makeRoomLocked(); {
	case err != nil:
		return nil, false, nil, err
	case wait && waited:
		return nil, false, p.line.PushFront(make(chan struct{})), nil
	case wait:
		return nil, false, p.line.PushBack(make(chan struct{})), nil
	}
	conn, err := p.dial(key)
	p.obs.dialed(err)
	if err != nil {
		return nil, false, nil, err
	}
	e := &entry{key: key.compact(), hash: hash, conn: conn, pool: p, stamp: p.now()}
	e.used.Store(e.stamp)
	e.refs.Store(1)
	e.place = p.recency.PushFront(e)
	p.table.putLocked(e)
	p.byApp.add(e)
	return e, true, nil, nil
}

// makeRoomLocked retires the least recently used entry if there is no room for
// one more. Where room comes soon, that is to be waited for.
func (p *Pool) makeRoomLocked() (wait bool, _ error) {
	live, total := p.recency.Len(), p.recency.Len()+len(p.draining)
	if live < p.cfg.MaxConns && total < 2*p.cfg.MaxConns {
		return false, nil
	}
	if p.closing >= maxClosing {
		return true, nil
	}
	if p.retireOldestUnusedLocked() {
		return false, nil
	}
	if total < 2*p.cfg.MaxConns {
		// All are in use. The calls of the oldest one go on while it drains.
		p.retireLocked(p.recency.Back().Value.(*entry), reasonEvicted)
		return false, nil
	}
	return false, fmt.Errorf("%w: %d are live, %d more are draining", ErrPoolFull, live, len(p.draining))
}

// retireOldestUnusedLocked retires the entry without calls that was used
// longest ago, as far as is known. In a first round entries that were used since
// they were last looked at get a second chance, in a second round they do not.
// Where there are more entries than are looked at, the first one without calls
// goes if no better one was found.
func (p *Pool) retireOldestUnusedLocked() bool {
	var unused *entry
	for range min(2*p.recency.Len(), maxLooks) {
		place := p.recency.Back()
		e := place.Value.(*entry)
		used := e.used.Load()
		if used == e.stamp && p.retireUnusedLocked(e, reasonEvicted) {
			return true
		}
		if unused == nil && e.refs.Load() == 0 {
			unused = e
		}
		e.stamp = used
		p.recency.MoveToFront(place)
	}
	return unused != nil && p.retireUnusedLocked(unused, reasonEvicted)
}

package rpcproxy

import (
	"container/list"
	"context"
	"time"

	"google.golang.org/grpc/connectivity"
)

// retireLocked retires a live entry; its calls go on until the drain limit.
func (p *Pool) retireLocked(e *entry, why reason) {
	busy := e.retireLocked(why)
	p.removeLocked(e, why)
	if !busy {
		p.closing++
		e.close()
		return
	}
	p.draining[e] = struct{}{}
	if p.cfg.DrainTimeout > 0 {
		e.drain = time.AfterFunc(p.cfg.DrainTimeout, e.cutOff)
	}
}

// retireUnusedLocked retires a live entry if no call uses it.
func (p *Pool) retireUnusedLocked(e *entry, why reason) bool {
	if !e.retireUnusedLocked(why) {
		return false
	}
	p.removeLocked(e, why)
	p.closing++
	e.close()
	return true
}

// removeLocked takes a live entry out of sight.
func (p *Pool) removeLocked(e *entry, why reason) {
	p.table.removeLocked(e)
	p.recency.Remove(e.place)
	e.place = nil
	p.obs.retired(why)
}

// closeEntry closes a retired entry's connection and forgets it.
func (p *Pool) closeEntry(e *entry) {
	p.mu.Lock()
	if _, drained := p.draining[e]; drained {
		delete(p.draining, e)
		p.closing++
	}
	if e.drain != nil {
		e.drain.Stop()
	}
	p.mu.Unlock()

	_ = e.conn.Close() // fails only where it was closed before

	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing--
	p.byApp.remove(e)
	p.nextLocked()
	p.doneLocked()
}

// nextLocked has the first in the line look again, if there may be room: one, as
// there is room for one, and it has the next one look when it is done. Were all of
// them to look each time, thousands would, to find none.
func (p *Pool) nextLocked() {
	first := p.line.Front()
	if first == nil || p.closing >= maxClosing && !p.closed {
		return
	}
	close(p.line.Remove(first).(chan struct{}))
}

// leaveLine gives up a place in the line.
func (p *Pool) leaveLine(place *list.Element) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-place.Value.(chan struct{}): // another is to look in its stead
		p.nextLocked()
	default:
		p.line.Remove(place)
	}
}

// doneLocked wakes shutdown when nothing is left.
func (p *Pool) doneLocked() {
	if p.closed && p.recency.Len()+len(p.draining)+p.closing == 0 {
		select {
		case <-p.empty:
		default:
			close(p.empty)
		}
	}
}

// expireIdle retires what carried no call for the idle timeout, and comes back
// when the next entry may be due: no sooner than after a tenth of the timeout,
// so that many entries are looked at together.
func (p *Pool) expireIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := p.now()
	next := p.cfg.IdleTimeout
	for place := p.recency.Back(); place != nil; {
		e := place.Value.(*entry)
		place = place.Prev()
		left := p.cfg.IdleTimeout - time.Duration(now-e.used.Load())
		if left > 0 {
			next = min(next, left)
			continue
		}
		p.retireUnusedLocked(e, reasonIdle) // or it is in use, and not idle
	}
	p.sweep.Reset(max(next, p.cfg.IdleTimeout/10))
}

// revoke retires the connections of a token, or of all of an app's if tokenID
// is empty. With cut, calls in flight are cut off. Connections that others share
// stay: with key app those of single tokens, with key shared all.
func (p *Pool) revoke(app, tokenID string, cut bool) {
	if app == "" || p.cfg.Key == "shared" || p.cfg.Key == "app" && tokenID != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.byApp.of(app) {
		if tokenID != "" && e.key.TokenID != tokenID {
			continue
		}
		if e.place != nil {
			p.retireLocked(e, reasonRevoked)
		}
		// Also those that were draining already.
		if _, draining := p.draining[e]; draining && cut {
			why := reasonRevoked
			e.why.Store(&why)
			e.cutOff()
		}
	}
}

// retireRevoked retires the connection of a lease whose credential was revoked,
// unless it was retired before, or others share it. The app's other tokens are
// not concerned, though they may have no id to tell them apart by.
func (p *Pool) retireRevoked(l Lease) {
	if p.cfg.Key != "credential" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.entry.place != nil {
		p.retireLocked(l.entry, reasonRevoked)
	}
}

// liveLocked ranges over the live entries; the current one may be retired.
func (p *Pool) liveLocked() func(yield func(*entry) bool) {
	return func(yield func(*entry) bool) {
		var next *list.Element
		for place := p.recency.Front(); place != nil; place = next {
			next = place.Next()
			if !yield(place.Value.(*entry)) {
				return
			}
		}
	}
}

// ready tells whether some connection is ready, and whether some has failed to
// connect.
func (p *Pool) ready() (ready, failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.liveLocked() {
		switch e.conn.GetState() {
		case connectivity.Ready:
			return true, false
		case connectivity.TransientFailure:
			failing = true
		}
	}
	return false, failing
}

// size is how many connections are live and draining.
func (p *Pool) size() (live, draining int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recency.Len(), len(p.draining)
}

// shutdown takes no new calls and waits for those in flight. When ctx is done
// it cuts them off, and gives ctx's error. It returns once all is closed.
func (p *Pool) shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for e := range p.liveLocked() {
		p.retireLocked(e, reasonShutdown)
	}
	p.doneLocked()
	p.mu.Unlock()

	select {
	case <-p.empty:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	for e := range p.draining {
		e.cutOff()
	}
	p.mu.Unlock()
	<-p.empty
	return ctx.Err()
}

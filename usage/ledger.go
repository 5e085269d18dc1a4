package usage

import (
	"sync/atomic"
	"time"
)

// Bounds of what is kept of counts that are not known to be in Redis.
const (
	maxKept       = 4 * maxCounted // triples of app, day and route
	maxKeptOthers = maxOthers      // beside those, for [OtherRoute]
	maxBatch      = 256            // routes that one script adds
)

// ledgers hold what was taken from the counts and is not known to be in Redis.
// They are used by one goroutine; unflushed and lost are read by others.
type ledgers struct {
	of     map[account]*ledger
	number int64 // of the last batch
	kept   int   // triples, but for those of [OtherRoute]
	others int

	unflushed atomic.Int64 // calls in the ledgers
	lost      atomic.Int64 // calls that there was no room for
}

// account is what one key in Redis counts.
type account struct {
	app string
	day string
}

// ledger is what is not known to be in Redis of one account.
type ledger struct {
	sent *batch           // what may be there already; it must come again as it is
	next map[string]*Used // what came since, by route
}

// batch is what one script adds. Its number is higher than that of all before it
// from this process, and counts once.
type batch struct {
	number int64
	used   map[string]*Used
}

// add books what was used.
func (l *ledgers) add(day time.Time, app, route string, used Used) {
	a := account{app, dayText(day)}
	book := l.of[a]
	if book == nil {
		book = new(ledger)
	}
	u := book.next[route]
	if u == nil && route != OtherRoute && l.kept >= maxKept {
		route = OtherRoute
		u = book.next[route]
	}
	if u == nil {
		n := &l.kept
		if route == OtherRoute {
			if n = &l.others; *n >= maxKeptOthers {
				l.lost.Add(used.Calls)
				return
			}
		}
		*n++
		u = new(Used)
		if book.next == nil {
			book.next = map[string]*Used{}
		}
		book.next[route] = u
		l.of[a] = book
	}
	u.add(&used)
	l.unflushed.Add(used.Calls)
}

// batchOf is what is to be sent of an account next: what may be there already, or
// else what came since.
func (l *ledgers) batchOf(a account) *batch {
	book := l.of[a]
	switch {
	case book == nil:
		return nil
	case book.sent != nil:
		return book.sent
	case len(book.next) == 0:
		return nil
	}
	l.number++
	book.sent = &batch{number: l.number, used: book.next}
	book.next = nil
	if len(book.sent.used) > maxBatch {
		all := book.sent.used
		book.sent.used = make(map[string]*Used, maxBatch)
		for route, u := range all {
			if len(book.sent.used) == maxBatch {
				break
			}
			book.sent.used[route] = u
			delete(all, route)
		}
		book.next = all
	}
	return book.sent
}

// settle drops the batch that was sent of an account: it is in Redis.
func (l *ledgers) settle(a account) {
	book := l.of[a]
	for route, u := range book.sent.used {
		l.unflushed.Add(-u.Calls)
		if route == OtherRoute {
			l.others--
		} else {
			l.kept--
		}
	}
	book.sent = nil
	if len(book.next) == 0 {
		delete(l.of, a)
	}
}

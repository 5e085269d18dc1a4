package rpcproxy

import "iter"

// apps lists the entries of each app, so that revoking one's does not look at
// all others. It is the pool's, under its lock. The entries are linked through
// themselves: most apps have one or two.
type apps map[string]*entry

func (a apps) add(e *entry) {
	first := a[e.key.App]
	if e.next = first; first != nil {
		first.prev = e
	}
	a[e.key.App] = e
}

func (a apps) remove(e *entry) {
	if e.next != nil {
		e.next.prev = e.prev
	}
	switch {
	case e.prev != nil:
		e.prev.next = e.next
	case e.next != nil:
		// The map's key is a part of an entry's texts: it goes with the entry.
		delete(a, e.key.App)
		a[e.next.key.App] = e.next
	default:
		delete(a, e.key.App)
	}
	e.next, e.prev = nil, nil
}

// of ranges over an app's entries; the current one may be removed.
func (a apps) of(app string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := a[app]; e != nil; {
			next := e.next
			if !yield(e) {
				return
			}
			e = next
		}
	}
}

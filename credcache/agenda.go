package credcache

import "container/heap"

// agenda is the entries of a shard that Run sees to, by when it does: a heap.
// Under the shard's lock.
type agenda[K comparable, V any] []*entry[K, V]

// put has e seen to at an instant, and then only.
func (a *agenda[K, V]) put(e *entry[K, V], at int64) {
	e.at = at
	if e.index < 0 {
		heap.Push(a, e)
	} else {
		heap.Fix(a, e.index)
	}
}

// drop has e left alone.
func (a *agenda[K, V]) drop(e *entry[K, V]) {
	if e.index >= 0 {
		heap.Remove(a, e.index)
	}
}

// The rest is heap.Interface.

func (a agenda[K, V]) Len() int           { return len(a) }
func (a agenda[K, V]) Less(i, j int) bool { return a[i].at < a[j].at }

func (a agenda[K, V]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *agenda[K, V]) Push(x any) {
	e := x.(*entry[K, V]) //nolint:forcetypeassert // put gives it nothing else
	e.index = len(*a)
	*a = append(*a, e)
}

// Pop implements heap.Interface.
func (a *agenda[K, V]) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	e.index = -1
	return e
}

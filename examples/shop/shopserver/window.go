package shopserver

// window keeps the newest items of a growing sequence numbered from 1, bounded
// by their count and by their total size.
type window[T any] struct {
	maxItems, maxBytes int
	size               func(T) int

	items map[int64]T // exactly those with first <= id < next
	first int64
	next  int64
	bytes int
}

func newWindow[T any](maxItems, maxBytes int, size func(T) int) *window[T] {
	return &window[T]{
		maxItems: maxItems, maxBytes: maxBytes, size: size,
		items: make(map[int64]T), first: 1, next: 1,
	}
}

// add appends the item made for the next id, and drops the oldest ones that
// leave no room for it. The newest item always stays.
func (w *window[T]) add(item T) {
	w.items[w.next] = item
	w.next++
	w.bytes += w.size(item)
	for len(w.items) > 1 && (len(w.items) > w.maxItems || w.bytes > w.maxBytes) {
		w.bytes -= w.size(w.items[w.first])
		delete(w.items, w.first)
		w.first++
	}
}

func (w *window[T]) get(id int64) (T, bool) {
	item, ok := w.items[id]
	return item, ok
}

package discovery

import "sync"

// latest holds a value for many who each want to know the newest one, and may
// miss those between.
type latest[T any] struct {
	mu    sync.Mutex
	value T
	next  chan struct{} // closed when there is a newer value
}

func newLatest[T any]() *latest[T] { return &latest[T]{next: make(chan struct{})} }

// get returns the newest value, and what is closed when there is a newer one.
func (l *latest[T]) get() (T, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.next
}

// change replaces the value by what f makes of it.
func (l *latest[T]) change(f func(T) T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = f(l.value)
	close(l.next)
	l.next = make(chan struct{})
}

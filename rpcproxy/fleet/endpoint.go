package fleet

import "sync/atomic"

// Endpoint is one address of the backend, with what all connections together
// know of it. Its parts are each written by the file that they are named for.
type Endpoint struct {
	address string
	info    atomic.Pointer[Info]
}

// Address is its host:port.
func (e *Endpoint) Address() string { return e.address }

// Info is what discovery last told of it.
func (e *Endpoint) Info() *Info { return e.info.Load() }

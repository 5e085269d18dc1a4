package fleet

import "sync/atomic"

// Endpoint is one address of the backend, with what all connections together
// know of it. Its parts are each written by the file that they are named for.
type Endpoint struct {
	fleet   *Fleet
	address string
	hash    uint64 // of the address, for ring_hash
	info    atomic.Pointer[Info]
	start   start
	reports reports
	reach   reach
	health

	// What every call writes. It keeps its lines of memory to itself, so that what
	// is only read stays in every processor's cache.
	_    [cacheLine]byte
	load load
	ejection
	_ [cacheLine]byte
}

// cacheLine is the most that processors fetch, and take away from each other,
// at once (two lines of 64 bytes).
const cacheLine = 128

// Address is its host:port.
func (e *Endpoint) Address() string { return e.address }

// Info is what discovery last told of it.
func (e *Endpoint) Info() *Info { return e.info.Load() }

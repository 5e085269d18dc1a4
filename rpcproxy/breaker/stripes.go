package breaker

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// maxStripes bounds what a counter takes, 64 bytes each, on large machines.
const maxStripes = 16

// stripes hands each processor the number of a stripe that it writes to alone,
// mostly: counters that all processors add to would cost each call the transfer
// of a line of memory between them.
//
// Go does not say on which processor code runs. sync.Pool knows, and gives back
// what the same processor has put in before; what is put in here are numbers
// that exist already, so that nothing is allocated.
type stripes struct {
	pool    sync.Pool
	numbers []int
	next    atomic.Uint32
}

func newStripes() *stripes {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < maxStripes {
		n *= 2
	}
	s := &stripes{numbers: make([]int, n)}
	for i := range s.numbers {
		s.numbers[i] = i
	}
	s.pool.New = func() any { return &s.numbers[int(s.next.Add(1)-1)%n] }
	return s
}

// stripedCounter is a counter that is added to often and read seldom.
type stripedCounter struct {
	stripes *stripes
	cells   []cell
}

type cell struct {
	n atomic.Int64
	_ [56]byte // a line of memory each
}

func newStripedCounter(s *stripes) stripedCounter {
	return stripedCounter{stripes: s, cells: make([]cell, len(s.numbers))}
}

func (c *stripedCounter) inc() {
	if len(c.cells) == 1 {
		c.cells[0].n.Add(1)
		return
	}
	number, _ := c.stripes.pool.Get().(*int)
	c.cells[*number].n.Add(1)
	c.stripes.pool.Put(number)
}

func (c *stripedCounter) sum() (n int64) {
	for i := range c.cells {
		n += c.cells[i].n.Load()
	}
	return n
}

// take sets it to 0 and gives what it was; nothing that is added meanwhile is
// lost.
func (c *stripedCounter) take() (n int64) {
	for i := range c.cells {
		n += c.cells[i].n.Swap(0)
	}
	return n
}

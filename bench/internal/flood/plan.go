// Package flood owns callers who do not care for their server: they offer calls
// over HTTP/2 in clear text at a rate of their own, whatever becomes of them (an
// open loop), or keep so many open that each that ends is followed by another.
// Each call is given up when its patience is over, as callers do.
package flood

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Plan is what is offered. It can be told to another process as JSON.
type Plan struct {
	Target     string // host:port
	Verb, Path string
	Header     [][2]string // beside what every request has
	Body       []byte      // empty: none
	Conns      int
	// Calls a second over all connections, at random instants; 0: Open says how many.
	Rate float64
	// How many calls are kept open over all connections, where Rate is 0.
	Open     int
	Patience time.Duration // how long a caller waits
	Length   time.Duration // how long it all goes on
	Skip     time.Duration // how much of the beginning is not in the sum
	// No answer is read beyond what fits into a stream's window: 64 KiB.
	Unread bool
}

// Run offers the calls, and tells what became of them by the second in which they
// began.
func Run(ctx context.Context, p Plan) (*Tally, error) {
	if p.Conns < 1 || p.Rate <= 0 && p.Open < 1 {
		return nil, errors.New("a plan needs connections, and calls over them")
	}
	t := &Tally{begin: time.Now(), skip: int(p.Skip / time.Second), seconds: make([]Counts, int(p.Length/time.Second)+1)}
	var all sync.WaitGroup
	ended := make(chan error, 2*p.Conns)
	for i := range p.Conns {
		c, err := dial(ctx, p, t)
		if err != nil {
			return nil, err
		}
		all.Go(func() { ended <- c.read() })
		all.Go(func() { ended <- c.offer(i) })
	}
	all.Wait()
	close(ended)
	var failed error
	for err := range ended {
		failed = errors.Join(failed, err)
	}
	return t, failed
}

// Tally counts what becomes of calls, by the second in which they were to begin.
type Tally struct {
	begin time.Time
	skip  int

	mu      sync.Mutex
	seconds []Counts
}

func (t *Tally) count(due time.Time, add func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.seconds[min(int(due.Sub(t.begin)/time.Second), len(t.seconds)-1)])
}

// Sum is what became of all calls but those of the beginning, and of how many
// seconds they are.
func (t *Tally) Sum() (sum Counts, seconds int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := t.skip; i < len(t.seconds); i++ {
		if t.seconds[i].Begun > 0 {
			sum.add(t.seconds[i])
			seconds++
		}
	}
	return sum, seconds
}

// Print writes a line for each second, and one for all.
func (t *Tally) Print(w io.Writer) {
	for i := range t.seconds {
		if t.seconds[i].Begun > 0 {
			t.seconds[i].writeTo(w, fmt.Sprint(i))
		}
	}
	sum, n := t.Sum()
	sum.writeTo(w, "all")
	if n > 0 {
		_, _ = fmt.Fprintf(w, "served %.0f/s of %.0f/s\n", float64(sum.Served)/float64(n), float64(sum.Begun)/float64(n))
	}
}

// Counts is what became of calls.
type Counts struct {
	Begun, Served, Refused, Late, Failed int
	Took                                 []time.Duration // of those that were served
}

func (s *Counts) add(other Counts) {
	s.Begun += other.Begun
	s.Served += other.Served
	s.Refused += other.Refused
	s.Late += other.Late
	s.Failed += other.Failed
	s.Took = append(s.Took, other.Took...)
}

// Quantile is how long the share q of the calls that were served took at most; 0:
// none was served.
func (s *Counts) Quantile(q float64) time.Duration {
	if len(s.Took) == 0 {
		return 0
	}
	slices.Sort(s.Took)
	return s.Took[min(len(s.Took)-1, int(q*float64(len(s.Took))))]
}

func (s *Counts) writeTo(w io.Writer, name string) {
	_, _ = fmt.Fprintf(w, "%-5s begun %6d  served %6d  refused %6d  late %6d  failed %6d  p50 %8v  p99 %8v\n",
		name, s.Begun, s.Served, s.Refused, s.Late, s.Failed,
		s.Quantile(0.5).Round(100*time.Microsecond), s.Quantile(0.99).Round(100*time.Microsecond))
}

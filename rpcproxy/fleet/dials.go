package fleet

import "sync"

// Dials bounds how many connections to one endpoint are being made at once, so
// that the first calls of thousands of credentials, or an endpoint's restart, do
// not have it take thousands of handshakes at the same time.
//
// The bound is of each endpoint and not of all together: one that does not answer
// would hold up the connections to all others.
//
// Who waits is let go by turns: those that a call waits for come first, of these
// one of each app's, so that an app with thousands of tokens does not hold up the
// others; an app's own in the order that they came in.
type Dials struct {
	max int // 0: no bound

	mu      sync.Mutex
	to      map[string]*dialsTo // by address; those with any
	waiting int
	active  int
}

// dialsTo are those to one address.
type dialsTo struct {
	active int
	urgent line // calls wait for these
	rest   line
}

// Dial is one connection that is to be made, from when it is wanted until it is
// made, has failed or is wanted no more.
type Dial struct {
	dials   *Dials
	address string
	start   func()
	state   dialState
	line    *line
	place   place
}

type dialState uint8

const (
	dialWaiting dialState = iota
	dialActive
	dialEnded
)

// newDials makes the bound; 0: there is none.
func newDials(limit int) *Dials { return &Dials{max: limit, to: map[string]*dialsTo{}} }

// Begin has start called when the connection may be made: before Begin returns,
// or later, in the goroutine of whoever ends another. It may be called once more
// than it should, after End. It must neither block nor call Dials. End must
// follow.
func (d *Dials) Begin(address, app string, urgent bool, start func()) *Dial {
	dial := &Dial{dials: d, address: address, start: start}
	d.mu.Lock()
	to := d.to[address]
	if to == nil {
		to = &dialsTo{}
		d.to[address] = to
	}
	if d.max > 0 && to.active >= d.max {
		dial.line = &to.rest
		if urgent {
			dial.line = &to.urgent
		}
		dial.line.push(dial, app)
		d.waiting++
		d.mu.Unlock()
		return dial
	}
	d.activateLocked(to, dial)
	d.mu.Unlock()
	start()
	return dial
}

func (d *Dials) activateLocked(to *dialsTo, dial *Dial) {
	dial.state = dialActive
	to.active++
	d.active++
}

// Hurry puts it among those that calls wait for.
func (l *Dial) Hurry() {
	d := l.dials
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.state != dialWaiting {
		return
	}
	if urgent := &d.to[l.address].urgent; l.line != urgent {
		app := l.line.remove(l)
		l.line = urgent
		urgent.push(l, app)
	}
}

// End gives up its place. It may be called again.
func (l *Dial) End() {
	if next := l.end(); next != nil {
		next.start()
	}
}

// end returns the dial that takes the place.
func (l *Dial) end() (next *Dial) {
	d := l.dials
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.to[l.address]
	switch l.state {
	case dialEnded:
		return nil
	case dialWaiting:
		l.line.remove(l)
		d.waiting--
	case dialActive:
		to.active--
		d.active--
		if next = to.urgent.pop(); next == nil {
			next = to.rest.pop()
		}
		if next != nil {
			d.waiting--
			d.activateLocked(to, next)
		}
	}
	l.state = dialEnded
	if to.active == 0 { // then nobody waits
		delete(d.to, l.address)
	}
	return next
}

// Waiting tells whether it may not be made yet.
func (l *Dial) Waiting() bool {
	l.dials.mu.Lock()
	defer l.dials.mu.Unlock()
	return l.state == dialWaiting
}

// Counts is how many wait, and how many are being made.
func (d *Dials) Counts() (waiting, active int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting, d.active
}

package breaker

// Pass is a call that was let through. It is used by one goroutine.
type Pass struct {
	group *Group // nil: the outcome is nobody's business, or was reported
	app   string
	// By everybody's circuit, and by the app's own.
	all, own ticket
	asked    bool // Progress was called
}

// Progress reports that the backend has begun to answer a call that may go on
// for long. A stream is a success from its header on, so that breakers recover
// where no stream ever ends; if it fails later, that counts as well. Only the
// first report counts.
func (p *Pass) Progress() {
	if p.group == nil || p.asked {
		return
	}
	p.asked = true
	now := p.group.now()
	for _, t := range []*ticket{&p.all, &p.own} {
		if t.circuit != nil {
			t.progressed = t.circuit.progress(*t, now)
		}
	}
}

// Done reports the outcome of the call, and what a failure is to be named to
// operators: its code. Only the first report counts.
func (p *Pass) Done(o Outcome, why string) {
	g := p.group
	if g == nil {
		return
	}
	p.group = nil
	now := g.now()
	all, own := o, o
	switch {
	case o == Exhausted:
		all, own = Ignored, Failure
		if p.own.circuit == nil {
			p.own = g.exhausted(p.app, now)
		}
	case o == Failure && !g.perApp:
		own = Ignored // it is everybody's
	}
	p.all.report(all, why, now)
	p.own.report(own, why, now)
}

package config

import "time"

// shortestQueueDelay is what a queue_delay has to be at least: goroutines of a
// gateway that is well wait some tenths of a millisecond.
const shortestQueueDelay = time.Millisecond

func (v *validator) overload(o *Overload, section string) {
	if o.QueueDelay > 0 && o.QueueDelay < shortestQueueDelay {
		v.fault(section+".queue_delay", "is too short: a gateway that is well waits nearly as long; the least is %v, or 0 for not looking at it", shortestQueueDelay)
	}
}

func (v *validator) concurrency(c *Concurrency, section string) {
	if c.Adaptive && c.MaxCalls > 0 && c.MinCalls > c.MaxCalls {
		v.fault(section+".min_calls", "is more than max_calls, %d", c.MaxCalls)
	}
}

// warnOverload finds settings that shed, or do not, where that is not expected.
func (v *validator) warnOverload(o *Overload, section string) {
	switch {
	case o.CPU == 0 && o.QueueDelay > 0:
		v.fault(section+".cpu", "is not looked at: calls are shed, too, when others on the machine keep the gateway waiting")
	case o.CPU > 0 && o.QueueDelay == 0:
		v.fault(section+".queue_delay", "is not looked at: calls are shed at this CPU though none of them waits")
	case o.MaxCalls == 0 && o.CPU == 0:
		v.fault(section, "nothing is ever shed: more calls than can be served end with none being served in time")
	}
}

// warnConcurrency finds what a fixed limit does not look at.
func (v *validator) warnConcurrency(c *Concurrency, section string) {
	if !c.Adaptive && c.MinCalls != DefaultBackend("").Concurrency.MinCalls {
		v.fault(section+".min_calls", "does nothing: the limit is not adaptive")
	}
}

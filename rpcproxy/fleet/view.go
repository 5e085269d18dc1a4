package fleet

import "time"

// State is what an endpoint's calls depend on. The set is fixed: it labels
// metrics.
type State string

// The states. Of several that hold, the first in this order is told.
const (
	// StateUnused: it is not in this gateway's subset.
	StateUnused State = "unused"
	// StateEjected: only single calls try it out, when its time is up.
	StateEjected State = "ejected"
	// StateUnhealthy: it says that it does not serve.
	StateUnhealthy State = "unhealthy"
	// StateUnreachable: there is no connection to it, and the last attempt failed.
	StateUnreachable State = "unreachable"
	// StateSlowStart: it is new, and does not get its whole share of calls yet.
	StateSlowStart State = "slow_start"
	// StateOK: none of these.
	StateOK State = "ok"
)

// States are all of them.
func States() []State {
	return []State{StateOK, StateSlowStart, StateEjected, StateUnhealthy, StateUnreachable, StateUnused}
}

// EndpointView is an endpoint as operators see it.
type EndpointView struct {
	Address string `json:"address"`
	// As discovery tells it.
	Metadata map[string]string `json:"metadata,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	// Its share of calls with weighted_round_robin: by its reports if there are
	// some, else as discovery tells it.
	Weight float64 `json:"weight"`
	State  State   `json:"state"`
	// Why it is ejected, unhealthy or unreachable, in words.
	Reason string `json:"reason,omitempty"`
	// Since when it is ejected.
	EjectedAt *time.Time `json:"ejected_at,omitempty"`
	// From when on a call may try it out.
	NextProbe *time.Time `json:"next_probe,omitempty"`
	// How often it was ejected lately: what the next ejection's length grows by.
	Ejections int `json:"ejections,omitempty"`
	// What it says of itself: serving, not_serving, unknown.
	Health string `json:"health"`
	// Calls under way.
	InFlight int64 `json:"in_flight"`
	// Mean of its calls' durations, the last ones weighing most; 0: not known.
	LatencyMillis float64 `json:"latency_ms"`
	// Of its calls, the last ones weighing most.
	SuccessShare float64 `json:"success_share"`
	// Connections that are ready.
	Connections int64 `json:"connections"`
}

// View shows all endpoints that discovery tells of, in its order.
func (f *Fleet) View() []EndpointView {
	f.mu.Lock()
	list, all := distinct(f.list), f.all
	f.mu.Unlock()
	// The clock has no date: instants are told by how far they are from now.
	now, today := f.now(), time.Now()
	date := func(at time.Duration) *time.Time { return new(today.Add(at - now)) }

	f.availability.mu.Lock()
	defer f.availability.mu.Unlock()
	views := make([]EndpointView, len(list))
	for i, info := range list {
		v := &views[i]
		*v = EndpointView{
			Address: info.Address, Metadata: info.Metadata, Zone: info.Metadata["zone"],
			Weight: givenWeight(info.Metadata), State: StateUnused, Health: Unknown.String(),
		}
		e := all[info.Address]
		if e == nil {
			continue
		}
		v.State = e.state(now)
		v.Health = e.said.String()
		v.InFlight, v.Connections = e.load.inflight.Load(), e.load.conns.Load()
		v.LatencyMillis, v.SuccessShare = e.load.latency()/float64(time.Millisecond), e.load.successes()
		v.Ejections = e.times
		if reported := e.reports.current(now); reported > 0 {
			v.Weight = reported
		}
		switch v.State {
		case StateEjected:
			v.Reason = string(e.reason) + ": " + e.detail
			v.EjectedAt, v.NextProbe = date(e.ejectedAt), date(time.Duration(e.until.Load()))
		case StateUnhealthy:
			v.Reason = "says that it does not serve"
		case StateUnreachable:
			v.Reason = e.reach.lostWhy
		}
	}
	return views
}

// state is that of an endpoint in use.
func (e *Endpoint) state(now time.Duration) State {
	switch barred := e.barred.Load(); {
	case barred&barEjected != 0:
		return StateEjected
	case barred&barUnhealthy != 0:
		return StateUnhealthy
	case e.unreachable():
		return StateUnreachable
	case now < e.start.end():
		return StateSlowStart
	default:
		return StateOK
	}
}

// Count is how many endpoints are in each state, and whether so few of them are
// usable that calls go to all.
func (f *Fleet) Count() (states map[State]int, panicking bool) {
	f.mu.Lock()
	listed := len(distinct(f.list))
	f.mu.Unlock()
	states = make(map[State]int)
	used, now := f.Endpoints(), f.now()
	for _, e := range used {
		states[e.state(now)]++
	}
	states[StateUnused] = max(0, listed-len(used))
	return states, f.panicking()
}

package fleet

import (
	"maps"
	"slices"
)

// Update takes discovery's whole list, and returns the endpoints that this
// gateway is to connect to, in the list's order; an address that is there twice
// counts once, as it stands first. What is known of an endpoint stays while it
// is in the list. A list that is as the last one costs a comparison, so that
// each connection may bring it.
func (f *Fleet) Update(list []Info) []*Endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.EqualFunc(f.list, list, sameInfo) {
		return f.Endpoints()
	}
	before := f.list
	f.list = slices.Clone(list)
	list = f.part.of(distinct(list))
	f.joinLocked(list, before)
	used := make([]*Endpoint, len(list))
	for i, info := range list {
		used[i] = f.all[info.Address]
	}
	f.replaced(*f.used.Swap(&used))
	f.compareLocked()
	return used
}

// joinLocked makes f.all the endpoints of the list. One that was not in the list
// before, of which others stay, starts slowly; where all are new, none has to wait
// for the others.
func (f *Fleet) joinLocked(list, before []Info) {
	listed := make(map[string]bool, len(before))
	for _, info := range before {
		listed[info.Address] = true
	}
	all := make(map[string]*Endpoint, len(list))
	for _, info := range list {
		if e := f.all[info.Address]; e != nil {
			all[info.Address] = e
		}
	}
	some, latency := len(all) > 0, meanLatency(all)
	for _, info := range list {
		e := all[info.Address]
		if e == nil {
			e = &Endpoint{fleet: f, address: info.Address, hash: HashKey(info.Address)}
			e.load.init(latency)
			if some && !listed[info.Address] {
				e.start = start{begun: f.now(), window: f.cfg.Balancer.SlowStart}
			}
			all[info.Address] = e
		}
		info.weight = givenWeight(info.Metadata)
		e.info.Store(&info)
	}
	f.all = all
}

// meanLatency is that of the endpoints of which it is known, in ns; 0: it is of
// none.
func meanLatency(endpoints map[string]*Endpoint) float64 {
	sum, n := 0.0, 0
	for _, e := range endpoints {
		if lag := e.load.latency(); lag > 0 {
			sum += lag
			n++
		}
	}
	return sum / float64(max(n, 1))
}

func distinct(list []Info) []Info {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(slices.Clone(list), func(info Info) bool {
		again := seen[info.Address]
		seen[info.Address] = true
		return again
	})
}

func sameInfo(a, b Info) bool {
	return a.Address == b.Address && maps.Equal(a.Metadata, b.Metadata)
}

package fleet

// isNear tells whether an endpoint is in the gateway's own zone; all are where
// zones do not matter.
func (f *Fleet) isNear(e *Endpoint) bool {
	own := f.cfg.Balancer.Zone.Name
	return own == "" || e.Info().Metadata["zone"] == own
}

// spill is the share of calls, of 1<<32, that go to other zones, when so many
// endpoints of the own zone can be used: none, as long as those are the share of
// spill_below of the ones that there are; beyond that in proportion. What is
// counted are endpoints that are wanted.
func (f *Fleet) spill(usable int, wanted func(*Endpoint) bool) uint64 {
	zone := f.cfg.Balancer.Zone
	if zone.Name == "" || zone.SpillBelow <= 0 {
		return 0
	}
	all := 0
	for _, e := range f.Endpoints() {
		if f.isNear(e) && wanted(e) {
			all++
		}
	}
	all = max(all, usable) // one may have left discovery, and not this connection
	if all == 0 {
		return 0
	}
	stay := float64(usable) / float64(all) / zone.SpillBelow
	if stay >= 1 {
		return 0
	}
	return uint64((1 - stay) * (1 << 32))
}

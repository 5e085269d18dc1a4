package config

import "strings"

func (v *validator) balancer(b *Balancer, section string) {
	if b.HashHeader != "" && b.HashField != "" {
		v.fault(section+".hash_field", "hash_header and hash_field are set, but only one may say what is hashed")
	}
	if key := section + ".hash_header"; b.HashHeader != "" {
		switch {
		case !isMetadataKey(b.HashHeader):
			v.fault(key, "%s is not a metadata key: lower-case letters, digits, dashes, dots and underscores", v.show(key, b.HashHeader))
		case ReservedHeader(b.HashHeader):
			v.fault(key, "%s never reaches a backend; without hash_header the app is hashed", v.show(key, b.HashHeader))
		}
	}
	if key := section + ".hash_field"; b.HashField != "" && !isFullName(b.HashField) {
		v.fault(key, "%s is not the name of a field, or several with dots between them", v.show(key, b.HashField))
	}
}

// warnBalancer finds what the policy does not look at.
func (v *validator) warnBalancer(b *Backend, section string) {
	balancer := &b.Balancer
	idle := func(set bool, key, why string) {
		if set && why != "" {
			v.fault(section+key, "does nothing: %s", why)
		}
	}
	idle(len(b.Canary) > 0, ".canary", b.whyNoCanary())
	v.warnCanaries(b.Canary, section+".canary")
	if b.byXDS() {
		const why = whyByXDS
		idle(balancer.Policy != "p2c_ewma", ".balancer.policy", why)
		idle(balancer.Zone.Name != "", ".balancer.zone", why)
		idle(balancer.Subset.Size > 0, ".balancer.subset", why)
		return
	}
	notRing, notWeighted := balancer.Policy != "ring_hash", balancer.Policy != "weighted_round_robin"
	idle(balancer.HashHeader != "" && notRing, ".balancer.hash_header", "the policy is not ring_hash")
	idle(balancer.HashField != "" && notRing, ".balancer.hash_field", "the policy is not ring_hash")
	idle(balancer.LoadReports != "off" && notWeighted, ".balancer.load_reports", "the policy is not weighted_round_robin")
	idle(balancer.Zone.Name != "", ".balancer.zone", b.whyNoCanary()) // it, too, is read from metadata
}

const whyByXDS = "where xDS finds the endpoints, it says how they are chosen, too"

func (b *Backend) byXDS() bool { return strings.HasPrefix(b.Target, "xds:") }

// whyNoCanary tells why a backend's calls cannot be sent to endpoints by their
// metadata; empty: they can.
func (b *Backend) whyNoCanary() string {
	switch {
	case b.byXDS():
		return whyByXDS
	case b.Balancer.Policy == "pick_first":
		return "pick_first takes whichever endpoint answers first"
	case len(b.Endpoints) > 0 || b.Target != "":
		return "endpoints from the configuration and from DNS have no metadata, which etcd, Consul and Kubernetes tell"
	default:
		return ""
	}
}

// warnCanaries finds those whose turn never comes.
func (v *validator) warnCanaries(all []Canary, section string) {
	for i := range all[:max(0, len(all)-1)] {
		if all[i].Header == "" && all[i].Percent == 100 {
			v.fault(indexPath(section, i+1), "does nothing: the canary before it takes all calls")
			return
		}
	}
}

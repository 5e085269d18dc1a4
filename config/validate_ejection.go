package config

import (
	"strconv"
	"strings"
)

func (v *validator) subset(s *Subset, section string) {
	if key := section + ".number"; s.Number != "" {
		if _, err := strconv.ParseUint(s.Number, 10, 31); err != nil {
			v.fault(key, "%s is not a number from 0 up", v.show(key, s.Number))
		}
	}
}

func (v *validator) ejection(e *Ejection, section string) {
	if e.MaxTime < e.BaseTime {
		v.fault(section+".max_time", "is shorter than base_time, %v, which the first ejection lasts", e.BaseTime)
	}
	if f := e.LatencyFactor; f > 0 && f <= 1 {
		v.fault(section+".latency_factor", "must be above 1, or half of the endpoints would be ejected while all are well; 0 for none")
	}
}

// warnEjection finds what nothing comes of.
func (v *validator) warnEjection(b *Backend, section string) {
	idle := func(set bool, key, why string) {
		if set {
			v.fault(section+key, "does nothing: %s", why)
		}
	}
	idle(b.HealthCheck.Mode == "off" && b.HealthCheck.Service != "", ".health_check.service", "endpoints are not asked, as mode says")
	idle(b.Balancer.Subset.ID != "" && b.Balancer.Subset.Size == 0, ".balancer.subset.id", "without subset.size all endpoints are called")
	idle(b.Balancer.Subset.Number != "" && b.Balancer.Subset.Size == 0, ".balancer.subset.number", "without subset.size all endpoints are called")
	why := ""
	switch {
	case strings.HasPrefix(b.Target, "xds:"):
		why = "where xDS finds the endpoints, it says how they are chosen, too"
	case b.Balancer.Policy == "pick_first":
		why = "pick_first calls one endpoint as long as it is connected to it"
	default:
		return
	}
	idle(b.Ejection != DefaultBackend(b.Name).Ejection, ".ejection", why)
	idle(b.HealthCheck.Service != "" && b.HealthCheck.Mode != "off", ".health_check.service", why)
}

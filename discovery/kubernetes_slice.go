package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// endpointSlice is discovery.k8s.io/v1's, as far as it matters here
// (https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/).
type endpointSlice struct {
	Metadata    sliceMetadata   `json:"metadata"`
	AddressType string          `json:"addressType"` // IPv4, IPv6, or the deprecated FQDN
	Endpoints   []sliceEndpoint `json:"endpoints"`
	Ports       []slicePort     `json:"ports"`
}

type sliceMetadata struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
}

type slicePort struct {
	Name     *string `json:"name"`
	Port     *int    `json:"port"`
	Protocol *string `json:"protocol"` // absent: TCP
}

type sliceEndpoint struct {
	Addresses  []string `json:"addresses"` // all of one pod; the first is to be used
	Conditions struct {
		Ready       *bool `json:"ready"`       // absent: it is
		Serving     *bool `json:"serving"`     // absent: as ready
		Terminating *bool `json:"terminating"` // absent: it is not
	} `json:"conditions"`
	NodeName  *string `json:"nodeName"`
	Zone      *string `json:"zone"`
	TargetRef *struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"targetRef"`
}

// ready tells whether it takes new calls. A pod that is terminating takes none,
// whatever it is published for.
func (e *sliceEndpoint) ready() bool {
	return valueOr(e.Conditions.Ready, true) && !e.terminating()
}

// serving tells whether it still could.
func (e *sliceEndpoint) serving() bool {
	return valueOr(e.Conditions.Serving, valueOr(e.Conditions.Ready, true))
}

func (e *sliceEndpoint) terminating() bool { return valueOr(e.Conditions.Terminating, false) }

// endpointsOf merges the slices of a service. An endpoint is in several of them
// while it moves from one to another, and under either family of addresses in a
// cluster that has both: there, IPv4 is taken.
//
// Where none is ready, those that terminate but still serve are better than
// nothing, as kube-proxy sees it, too (KEP-1669).
func endpointsOf(all map[string]*endpointSlice, port string) ([]endpoint, error) {
	slicesInOrder := slices.SortedFunc(maps.Values(all), func(a, b *endpointSlice) int {
		return cmp.Or(cmp.Compare(a.AddressType, b.AddressType), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	var fault error
	gather := func(wanted func(*sliceEndpoint) bool) []endpoint {
		var found []endpoint
		family := map[string]string{} // the addresses' family, by pod
		for _, s := range slicesInOrder {
			number, err := s.port(port)
			if err != nil {
				fault = cmp.Or(fault, err)
				continue
			}
			for i := range s.Endpoints {
				e := &s.Endpoints[i]
				if !wanted(e) || len(e.Addresses) == 0 {
					continue
				}
				if pod := e.TargetRef; pod != nil && pod.UID != "" {
					if first, ok := family[pod.UID]; ok && first != s.AddressType {
						continue
					}
					family[pod.UID] = s.AddressType
				}
				address := net.JoinHostPort(e.Addresses[0], strconv.Itoa(number))
				if err := checkAddress(address); err != nil {
					fault = cmp.Or(fault, err)
					continue
				}
				found = append(found, endpoint{address: address, metadata: metadataOf(s.labelsOf(e))})
			}
		}
		return sorted(found)
	}
	if ready := gather((*sliceEndpoint).ready); len(ready) > 0 {
		return ready, fault
	}
	return gather(func(e *sliceEndpoint) bool { return e.serving() && e.terminating() }), fault
}

// port is the number of the port that is named so, or has that number, or is
// the only one.
func (s *endpointSlice) port(wanted string) (int, error) {
	var tcp []slicePort
	for _, p := range s.Ports {
		if p.Port != nil && valueOr(p.Protocol, "TCP") == "TCP" {
			tcp = append(tcp, p)
		}
	}
	if wanted == "" {
		if len(tcp) == 1 {
			return *tcp[0].Port, nil
		}
		return 0, fmt.Errorf("slice %s has %d TCP ports; say which", s.Metadata.Name, len(tcp))
	}
	for _, p := range tcp {
		if valueOr(p.Name, "") == wanted {
			return *p.Port, nil
		}
	}
	for _, p := range tcp {
		if strconv.Itoa(*p.Port) == wanted {
			return *p.Port, nil
		}
	}
	return 0, fmt.Errorf("slice %s has no TCP port %q", s.Metadata.Name, wanted)
}

// labelsOf are the service's own labels, which its slices have too, and what
// Kubernetes knows of the endpoint: zone, node and pod.
func (s *endpointSlice) labelsOf(e *sliceEndpoint) map[string]string {
	labels := map[string]string{}
	for key, value := range s.Metadata.Labels {
		if !strings.Contains(key, "/") { // prefixed ones are of Kubernetes and its tools
			labels[key] = value
		}
	}
	set := func(key string, value *string) {
		if v := valueOr(value, ""); v != "" {
			labels[key] = v
		}
	}
	set("zone", e.Zone)
	set("node", e.NodeName)
	if e.TargetRef != nil {
		set("pod", &e.TargetRef.Name)
	}
	return labels
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

package discovery

import (
	"maps"
	"net"
	"strconv"
	"strings"
)

// consulInstance is what GET /v1/health/service/:service tells of an instance,
// as far as it matters here
// (https://developer.hashicorp.com/consul/api-docs/health#list-service-instances-for-a-service).
type consulInstance struct {
	Node struct {
		Node       string
		Address    string
		Datacenter string
		Locality   *consulLocality
	}
	Service struct {
		ID       string
		Address  string
		Port     int
		Tags     []string
		Meta     map[string]string
		Weights  struct{ Passing int }
		Locality *consulLocality
	}
}

type consulLocality struct{ Region, Zone string }

// endpoint is where the instance is: at the address that it registered, or else
// at its node's.
func (i *consulInstance) endpoint() (endpoint, error) {
	host := i.Service.Address
	if host == "" {
		host = i.Node.Address
	}
	e := endpoint{
		address:  net.JoinHostPort(host, strconv.Itoa(i.Service.Port)),
		metadata: metadataOf(i.labels()),
	}
	return e, checkAddress(e.address)
}

// labels are, each overriding those before: what Consul knows (id, node,
// datacenter, region, zone, weight), the tags, of which key=value is one label
// and any other a label that is true, and the metadata that the instance
// registered.
func (i *consulInstance) labels() map[string]string {
	labels := map[string]string{}
	set := func(key, value string) {
		if key != "" && value != "" {
			labels[key] = value
		}
	}
	set("id", i.Service.ID)
	set("node", i.Node.Node)
	set("datacenter", i.Node.Datacenter)
	for _, l := range []*consulLocality{i.Node.Locality, i.Service.Locality} {
		if l != nil {
			set("region", l.Region)
			set("zone", l.Zone)
		}
	}
	if i.Service.Weights.Passing > 0 {
		set("weight", strconv.Itoa(i.Service.Weights.Passing))
	}
	for _, tag := range i.Service.Tags {
		if key, value, ok := strings.Cut(tag, "="); ok {
			set(key, value)
		} else {
			set(tag, "true")
		}
	}
	maps.Copy(labels, i.Service.Meta)
	return labels
}

package config

import "time"

// Balancer picks the endpoint of each call.
type Balancer struct {
	// p2c_ewma: the better of two at random, by latency and load (zRPC's). round_robin: in turn. weighted_round_robin:
	// in turn, by the endpoints' weights (metadata weight from discovery, or load reports). least_request: the fewer
	// calls in flight of two at random. ring_hash: by a hash of the app, so that an app keeps its endpoint. pick_first:
	// each connection goes to the first endpoint that answers.
	Policy string `yaml:"policy" default:"p2c_ewma" enum:"p2c_ewma,round_robin,weighted_round_robin,least_request,ring_hash,pick_first"`
	// For ring_hash: the metadata key whose value is hashed in place of the app id, which goes for calls without it.
	HashHeader string `yaml:"hash_header"`
	// For ring_hash: the field of the request whose value is hashed, such as user.id, in place of the app id, which goes for calls
	// without it.
	HashField string `yaml:"hash_field"`
	// An endpoint that discovery adds to others gets a share of the calls that grows over this time from a tenth to the
	// whole; 0: the whole at once. Not with ring_hash and pick_first.
	SlowStart time.Duration `yaml:"slow_start" default:"10s"`
	// Endpoints tell of their load with their answers (ORCA), for weighted_round_robin: off, per_call with each answer,
	// or out_of_band by a stream of reports.
	LoadReports string `yaml:"load_reports" default:"off" enum:"off,per_call,out_of_band"`
	// Prefers endpoints nearby.
	Zone Zone `yaml:"zone"`
	// Calls only some of the endpoints.
	Subset Subset `yaml:"subset"`
}

// Zone keeps calls in the gateway's own zone as long as there is room for them.
type Zone struct {
	// The gateway's own zone; empty: zones do not matter. Endpoints have theirs from discovery, as metadata zone.
	Name string `yaml:"name"`
	// Calls spill over to other zones when fewer than this share of the own zone's endpoints can be used: in
	// proportion, so that with half of the threshold half of the calls go elsewhere.
	SpillBelow float64 `yaml:"spill_below" default:"0.7" max:"1"`
}

// Subset bounds the connections between many gateways and many endpoints. All
// gateways together still use all endpoints evenly.
type Subset struct {
	// How many endpoints a gateway calls; 0: all. With zone.name three quarters of them are of that zone.
	Size int `yaml:"size" default:"0"`
	// What tells this gateway from the others; empty: a random name, which gives another subset at each start, and when
	// a reload changes the backend. ${HOSTNAME} keeps it over restarts.
	ID string `yaml:"id"`
	// The number of this gateway, where all those that call the endpoints are numbered from 0 without gaps, as the pods
	// of a StatefulSet are: all endpoints get the same number of gateways then. Empty: they are not.
	Number string `yaml:"number"`
}

// Match picks endpoints by their metadata: all keys must have the values given.
type Match map[string]string

// Canary sends some calls to some endpoints. Of several, the first whose
// conditions hold decides. Calls that no canary takes go to endpoints that no
// canary names.
type Canary struct {
	// Which endpoints, by their metadata from discovery: {version: v2}.
	Match Match `yaml:"match" jsonschema:"required"`
	// Only calls whose request metadata has this key, with this value if one is given.
	Header string `yaml:"header"`
	// The value that the header must have; empty: any.
	Value string `yaml:"value"`
	// The percentage of the calls (that have the header, if one is named), 0 to 100. An app's calls are not kept
	// together.
	Percent float64 `yaml:"percent" default:"100" max:"100"`
}

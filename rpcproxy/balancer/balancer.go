// Package balancer owns how a connection picks the endpoint of each call: the
// policies that grpc-go lacks or that need a hand ([Register]), and the
// service config that selects one ([ServiceConfig]).
package balancer

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/balancer/ringhash"
	"google.golang.org/grpc/balancer/roundrobin"

	"github.com/rpcgate/rpcgate/config"
)

// The names in grpc-go's registry of the policies that this package adds.
const (
	p2cName     = "p2c_ewma"
	appHashName = "rpcgate_app_hash"
)

// Register puts this package's policies into grpc-go's registry. The registry
// is global and not guarded: the command, and a test's TestMain, calls this
// first thing, before any connection is made. grpc-go's own policies are there
// by being linked in.
func Register() {
	balancer.Register(p2cBuilder{})
	balancer.Register(appHashBuilder{ring: balancer.Get(ringhash.Name)})
}

// ServiceConfig is the gRPC service config, as JSON, that selects the policy.
func ServiceConfig(cfg config.Balancer) (string, error) {
	name, settings := "", map[string]any{}
	switch cfg.Policy {
	case "p2c_ewma", "":
		name = p2cName
	case "round_robin":
		name = roundrobin.Name
	case "least_request":
		name = leastrequest.Name
		settings["choiceCount"] = 2
	case "pick_first":
		name = pickfirst.Name
		// Every gateway would pick the same endpoint otherwise.
		settings["shuffleAddressList"] = true
	case "ring_hash":
		name = appHashName
		if cfg.HashHeader != "" {
			name = ringhash.Name
			settings["requestHashHeader"] = cfg.HashHeader
		}
	default:
		return "", fmt.Errorf("balancer policy %q is not known", cfg.Policy)
	}
	if balancer.Get(name) == nil {
		return "", fmt.Errorf("balancer policy %q is not registered: call balancer.Register first", name)
	}
	text, err := json.Marshal(map[string]any{
		"loadBalancingConfig": []map[string]any{{name: settings}},
	})
	if err != nil {
		return "", fmt.Errorf("service config: %w", err)
	}
	return string(text), nil
}

// NeedsStreams tells whether calls that stream need [WithStream].
func NeedsStreams(cfg config.Balancer) bool { return cfg.Policy == "p2c_ewma" || cfg.Policy == "" }

// NeedsHashKey tells whether calls need [WithHashKey].
func NeedsHashKey(cfg config.Balancer) bool {
	return cfg.Policy == "ring_hash" && cfg.HashHeader == ""
}

// Package balancer owns how a gRPC connection gets to the endpoint that the
// backend's fleet chooses for a call: the one balancer for all policies
// ([Register]), the service config that selects it ([ServiceConfig]), and what
// carries the fleet and the call's choice to it.
package balancer

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
)

// Register puts this package's balancers into grpc-go's registry. The registry
// is global and not guarded: the command, and a test's TestMain, calls this
// first thing, before any connection is made. grpc-go's pick_first is there by
// being linked in.
func Register() {
	balancer.Register(fleetBuilder{})
	balancer.Register(pickFirstBuilder{balancer.Get(pickfirst.Name)})
}

// ServiceConfig is the gRPC service config, as JSON, that selects what balances
// by the policy: grpc-go's pick_first, whose connections wait for their turn, or
// the fleet's own balancer, which has all others.
func ServiceConfig(policy string) (string, error) {
	name, settings := fleetName, map[string]any{}
	if policy == pickfirst.Name {
		name = pickFirstName
		// Every gateway would pick the same endpoint otherwise.
		settings["shuffleAddressList"] = true
	}
	if balancer.Get(name) == nil {
		return "", fmt.Errorf("balancer %q is not registered: call balancer.Register first", name)
	}
	text, err := json.Marshal(map[string]any{
		"loadBalancingConfig": []map[string]any{{name: settings}},
	})
	if err != nil {
		return "", fmt.Errorf("service config: %w", err)
	}
	return string(text), nil
}

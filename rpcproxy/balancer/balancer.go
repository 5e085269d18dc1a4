// Package balancer owns how a connection picks the endpoint of each call: the
// policies that grpc-go lacks, and the service config that selects one.
package balancer

import (
	"context"

	"github.com/rpcgate/rpcgate/config"
)

// Register puts the policies into grpc-go's registry, which is global. The
// command calls it first thing, before any connection is made.
func Register() {}

// ServiceConfig is the gRPC service config, as JSON, that selects the policy.
func ServiceConfig(cfg config.Balancer) string { return `{}` }

// WithHashKey gives the context of a call the key that ring_hash hashes when
// no header is configured: the app.
func WithHashKey(ctx context.Context, key string) context.Context { return ctx }

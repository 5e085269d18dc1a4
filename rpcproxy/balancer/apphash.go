package balancer

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/serviceconfig"
)

// hashHeader is the metadata key that grpc-go's ring_hash looks at. It exists
// in the context of the pick only and never goes on the wire.
const hashHeader = "rpcgate-hash-key"

type hashKey struct{}

// WithHashKey gives the context of a call what ring_hash hashes when no header
// is configured: the app. Without it, an endpoint is picked at random.
func WithHashKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, hashKey{}, key)
}

// appHashBuilder is grpc-go's ring_hash with the key of [WithHashKey]. ring_hash
// by itself takes the key from a metadata entry of the call, which the backend
// would see too.
type appHashBuilder struct {
	ring balancer.Builder
}

func (appHashBuilder) Name() string { return appHashName }

func (b appHashBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return b.ring.Build(&appHashClientConn{ClientConn: cc}, o)
}

// ParseConfig takes ring_hash's configuration.
func (b appHashBuilder) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	settings := map[string]any{}
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, err
	}
	settings["requestHashHeader"] = hashHeader
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	return b.ring.(balancer.ConfigParser).ParseConfig(text)
}

// appHashClientConn puts its own picker around each of ring_hash's.
type appHashClientConn struct {
	balancer.ClientConn
}

func (c *appHashClientConn) UpdateState(s balancer.State) {
	s.Picker = appHashPicker{s.Picker}
	c.ClientConn.UpdateState(s)
}

type appHashPicker struct {
	ring balancer.Picker
}

func (p appHashPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if key, ok := info.Ctx.Value(hashKey{}).(string); ok {
		info.Ctx = metadata.NewOutgoingContext(info.Ctx, metadata.MD{hashHeader: {key}})
	}
	return p.ring.Pick(info)
}

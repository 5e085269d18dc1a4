package rpcproxy

import "context"

// rpcCredentials sends a credential as metadata app and token, as zRPC's
// clients do.
type rpcCredentials struct {
	metadata map[string]string
}

func newRPCCredentials(c Credential) *rpcCredentials {
	return &rpcCredentials{metadata: map[string]string{"app": c.App, "token": c.Token}}
}

// GetRequestMetadata implements credentials.PerRPCCredentials. grpc-go only
// reads the map.
func (c *rpcCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return c.metadata, nil
}

// RequireTransportSecurity is false, as in zRPC: backends in clear text inside
// a trusted network are common. Whoever leaves a backend's tls out of the
// config sends it tokens in clear text.
func (*rpcCredentials) RequireTransportSecurity() bool { return false }

// String keeps the secret out of logs.
func (*rpcCredentials) String() string { return "[redacted]" }

// GoString keeps the secret out of %#v.
func (c *rpcCredentials) GoString() string { return c.String() }

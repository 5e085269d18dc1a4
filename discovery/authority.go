package discovery

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/resolver"
)

// Authority gives the name that a ClientConn of the target, with the builders
// among its resolvers, has for the :authority of its calls, and for the
// certificate of an endpoint that has no name of its own: what grpc.NewClient
// says of it (gRPC's naming.md).
func Authority(target string, builders []resolver.Builder) (string, error) {
	parsed, builder, err := builderOf(target, builders)
	if err != nil {
		return "", err
	}
	if o, ok := builder.(resolver.AuthorityOverrider); ok {
		return o.OverrideAuthority(parsed), nil
	}
	switch endpoint := parsed.Endpoint(); {
	case endpoint == "":
		return "", fmt.Errorf("target %q names nothing", target)
	case strings.HasPrefix(endpoint, ":"):
		return "localhost" + endpoint, nil
	default:
		return endpoint, nil
	}
}

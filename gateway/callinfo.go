package gateway

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

// Keys under which the gateway itself says how a call was served. Neither
// callers nor backends say anything under them.
const (
	ownPrefix      = "x-rpcgate-"
	keyAttempts    = "x-rpcgate-attempts"
	keyEndpoint    = "x-rpcgate-endpoint"
	keyFallback    = "x-rpcgate-fallback"
	keyResults     = "x-rpcgate-results"
	keyAge         = "age" // beside keyFallback, in seconds: RFC 9111, 5.1
	keyIdempotency = "idempotency-key"
)

// callInfo is how much callers are told of how their calls were served.
type callInfo uint8

const (
	tellNothing callInfo = iota
	tellAttempts
	tellEndpoint // and attempts
)

func parseCallInfo(name string) callInfo {
	switch name {
	case "attempts":
		return tellAttempts
	case "endpoint":
		return tellEndpoint
	default:
		return tellNothing
	}
}

// withoutOwn takes out of a backend's metadata what is the gateway's to say.
func withoutOwn(md metadata.MD) metadata.MD {
	for key := range md {
		if strings.HasPrefix(key, ownPrefix) {
			delete(md, key)
		}
	}
	return md
}

// mark adds to the metadata of an answer how the call was served.
func (c *Call) mark(md metadata.MD) metadata.MD {
	out := &c.out
	if c.limited.by != nil {
		if md == nil {
			md = make(metadata.MD, 4)
		}
		md = addLimits(md, c.limited.by, c.limited.from.Now(), -1, 0)
	}
	if (out.show == tellNothing || out.served.Attempts == 0) && out.fallback == noFallback {
		return md
	}
	if md == nil {
		md = make(metadata.MD, 2)
	}
	if out.show >= tellAttempts && out.served.Attempts > 0 {
		md[keyAttempts] = []string{strconv.Itoa(out.served.Attempts)}
	}
	if out.show == tellEndpoint && out.served.Endpoint != "" {
		md[keyEndpoint] = []string{out.served.Endpoint}
	}
	if out.fallback != noFallback {
		md[keyFallback] = []string{out.fallback.String()}
	}
	if out.fallback == fallbackLastGood {
		md[keyAge] = []string{strconv.FormatInt(int64(out.age/time.Second), 10)}
	}
	return md
}

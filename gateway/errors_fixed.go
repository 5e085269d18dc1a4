package gateway

import (
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// fixedAnswer is a failure as its callers are told of it in each protocol,
// written out once. It is for what is refused by the thousand when there is no
// time for it: to say so must not cost what serving the call would.
type fixedAnswer struct {
	status  *status.Status
	json    [errorFormats][]byte // by errorFormat
	connect []byte
	// The status in gRPC's headers, as eachStatus gives them.
	headers []fixedHeader
	// For grpc-go, which would put the details together anew for each call: the
	// status without them, and they as the trailer that it makes of them.
	undetailed error
	details    metadata.MD // nil: none
	bare       *callError  // the failure without details
}

type fixedHeader struct{ key, value string }

// keyStatusDetails is the trailer with a status' details (gRPC's
// PROTOCOL-HTTP2.md); grpc-go takes one that is set, of a status that has none.
const keyStatusDetails = "grpc-status-details-bin"

// fixed makes a failure with a fixedAnswer of one that is the same for all calls,
// of whichever route.
func fixed(f callError) *callError {
	a := &fixedAnswer{status: f.Status()}
	for format := range errorFormat(errorFormats) {
		a.json[format] = appendFailure(nil, &f, nil, format)
	}
	a.connect = wire.AppendConnectError(nil, f.Code, f.Message, detailsOf(&f, nil))
	eachStatus(&f, func(key, value string) { a.headers = append(a.headers, fixedHeader{key, value}) })
	a.undetailed = status.Error(f.Code, f.Message)
	if !f.bare {
		if details, err := proto.Marshal(a.status.Proto()); err == nil {
			a.details = metadata.MD{keyStatusDetails: {string(details)}}
		}
		without := f
		without.bare = true
		a.bare = fixed(without)
	}
	f.fixed = a
	return &f
}

package rpcproxy

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// pushbackKey is the trailer by which a server says when to try again, in
// milliseconds, or not to: gRFC A6.
const pushbackKey = "grpc-retry-pushback-ms"

// pushback is what a backend says about trying again.
type pushback struct {
	said bool          // it said something
	stop bool          // not to try again, or something that cannot be read
	wait time.Duration // how long to wait
}

// parsePushback reads what an answer with an error says: the trailer, and the
// google.rpc.RetryInfo among the status's details. The longer wait counts where
// there are both. A negative number means no, and so does, as gRFC A6 has it,
// anything that cannot be read.
func parsePushback(trailer metadata.MD, s *status.Status) pushback {
	var p pushback
	if values := trailer[pushbackKey]; len(values) > 0 {
		ms, err := strconv.ParseInt(values[0], 10, 32)
		p.add(time.Duration(ms)*time.Millisecond, err == nil && len(values) == 1)
	}
	for _, detail := range s.Proto().GetDetails() {
		if !strings.HasSuffix(detail.GetTypeUrl(), "/google.rpc.RetryInfo") {
			continue
		}
		info := new(errdetails.RetryInfo)
		err := proto.Unmarshal(detail.GetValue(), info)
		delay := info.GetRetryDelay()
		p.add(delay.AsDuration(), err == nil && (delay == nil || delay.IsValid()))
	}
	return p
}

func (p *pushback) add(wait time.Duration, valid bool) {
	p.said = true
	if !valid || wait < 0 {
		p.stop = true
	}
	p.wait = max(p.wait, wait)
}

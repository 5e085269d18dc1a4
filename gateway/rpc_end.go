package gateway

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

const (
	headerStatus  = "Grpc-Status"
	trailerStatus = http.TrailerPrefix + headerStatus // which every call has; put together once
)

// finish ends the answer as its protocol has it. A failure is in it whatever was
// sent before; where it cannot be, the connection breaks.
func (p *envelopedPeer) finish(err error) {
	failure := describe(err)
	defer p.closeBody()
	if p.broken {
		panic(http.ErrAbortHandler)
	}
	p.limitWrite()
	switch p.form.proto {
	case protocolConnect:
		err = p.endConnect(failure)
	case protocolGRPCWeb:
		err = p.endWeb(failure)
	default:
		p.endGRPC(failure)
		err = nil
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// closeBody leaves the body to net/http.
func (p *envelopedPeer) closeBody() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.halfRead() {
		leaveBody(p.w)
	}
}

// endGRPC puts status and trailers into HTTP's trailers; or into the headers
// where the answer has nothing else, as gRPC has it.
func (p *envelopedPeer) endGRPC(failure *callError) {
	h := p.w.Header()
	prefix := ""
	switch {
	case p.committed:
		prefix = http.TrailerPrefix
	case p.headerSent:
		p.commit(nil)
		prefix = http.TrailerPrefix
	default:
		h["Content-Length"] = nil // net/http would say 0, which no gRPC server does
	}
	addAnswer(h, prefix, p.trailer)
	eachStatus(failure, func(key, value string) {
		name := trailerStatus
		if prefix == "" || key != headerStatus {
			name = prefix + key
		}
		h[name] = []string{value}
	})
	if !p.committed {
		h["Content-Type"] = []string{p.form.answer}
		p.writeStatusLine()
	}
}

// endWeb puts status and trailers into a last envelope; or into the headers, as
// in gRPC.
func (p *envelopedPeer) endWeb(failure *callError) error {
	if !p.committed && !p.headerSent {
		p.endGRPC(failure)
		return nil
	}
	if !p.committed {
		p.commit(nil)
	}
	block := p.front.buffers.Get(0)
	defer p.giveBack(block)
	eachStatus(failure, func(key, value string) { *block = wire.AppendWebTrailer(*block, lowerHeader(key), value) })
	eachAnswer(p.trailer, func(key string, values []string) {
		for _, v := range values {
			*block = wire.AppendWebTrailer(*block, key, v)
		}
	})
	return p.writeEnvelope(wire.FlagTrailers, *block, nil)
}

// endConnect puts error and trailers into a last envelope.
func (p *envelopedPeer) endConnect(failure *callError) error {
	if !p.committed {
		p.commit(nil)
	}
	var problem, trailer []byte
	if failure != nil {
		problem = p.appendError(nil, failure)
	}
	eachAnswer(p.trailer, func(key string, values []string) {
		trailer = wire.AppendMetadataEntry(trailer, key, values)
	})
	end := p.front.buffers.Get(0)
	defer p.giveBack(end)
	*end = wire.AppendEndStream(*end, problem, trailer)
	return p.writeEnvelope(wire.FlagEndStream, *end, nil)
}

// eachStatus calls use with what says how a call ended, by the names of HTTP
// headers.
func eachStatus(failure *callError, use func(key, value string)) {
	if failure == nil {
		use(headerStatus, "0")
		return
	}
	if failure.fixed != nil {
		for _, h := range failure.fixed.headers {
			use(h.key, h.value)
		}
		return
	}
	s := failure.Status()
	use(headerStatus, strconv.Itoa(int(s.Code())))
	if s.Message() != "" {
		use("Grpc-Message", wire.EncodeMessage(s.Message()))
	}
	if p := s.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			use("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
		}
	}
}

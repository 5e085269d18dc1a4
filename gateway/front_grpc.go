package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/gateway/wire"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// grpcFront is the front end of native gRPC callers: the unknown-service
// handler of a grpc.Server whose codec leaves messages as bytes.
type grpcFront struct{ g *Gateway }

func newGRPCFront(g *Gateway) *grpcFront {
	return &grpcFront{g: g}
}

// handle serves one call, of whatever kind. It is a grpc.StreamHandler.
func (f *grpcFront) handle(_ any, ss grpc.ServerStream) error {
	growStack(false)
	snap := f.g.snapshot.Load()
	ctx := ss.Context()
	method, _ := grpc.MethodFromServerStream(ss)
	p := &grpcPeer{stream: ss, method: method}
	c := &p.call
	c.Protocol, c.Start, c.peer = protocolGRPC, time.Now(), p
	c.Deadline, _ = ctx.Deadline()
	md := ownMetadata(ctx)
	c.RequestID = requestID(md[keyRequestID])
	p.givenID = len(md[keyRequestID]) > 0
	if from, ok := grpcpeer.FromContext(ctx); ok {
		c.ClientIP = addrIP(from.Addr)
	}

	route, err := snap.table.MatchGRPC(method)
	if err != nil {
		return p.finish(f.g.unrouted(grpcUnrouted(err))(ctx, c))
	}
	snap.bind(c, route)
	c.Credential, c.Refusal = auth.CredentialFromMetadata(md)
	c.Metadata, c.Malformed = filterMetadata(md, c.rules.forRequest(), c.RequestID, c.ClientIP)
	c.request.Compressor = requestCompressor(ctx)
	return p.finish(snap.handlers[route.Index](ctx, c))
}

// keptMetadata is the context key of what keepMetadata keeps.
type keptMetadata struct{}

// keepMetadata is a grpc.ServerOption's tap: it keeps a call's metadata as it
// came. grpc-go itself gives out only copies, which cost an allocation for each key;
// none of its own looks at the metadata once the call is the front end's.
func keepMetadata(ctx context.Context, info *tap.Info) (context.Context, error) {
	return context.WithValue(ctx, keptMetadata{}, info.Header), nil
}

// ownMetadata is the call's metadata, to be changed at will.
func ownMetadata(ctx context.Context) metadata.MD {
	if md, ok := ctx.Value(keptMetadata{}).(metadata.MD); ok {
		return md
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return md
}

// grpcUnrouted makes "no route" what gRPC says of methods that a server does
// not have.
func grpcUnrouted(err error) error {
	failure := describe(err)
	if failure.Code == codes.NotFound {
		return &callError{Code: codes.Unimplemented, Reason: failure.Reason, Message: "no route for this method", cause: err}
	}
	return failure
}

// requestCompressor names how the messages of a gRPC caller go on to the backend.
func requestCompressor(ctx context.Context) string {
	if t, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string }); ok {
		return backendCompressor(t.RecvCompress())
	}
	return ""
}

// backendCompressor is how messages go on to the backend that came with a gRPC
// encoding: gzip stays, as all of gRPC's implementations have it. What the
// gateway understands, and a backend may not, ends here.
func backendCompressor(encoding string) string {
	if encoding == wire.Gzip {
		return encoding
	}
	return ""
}

// grpcPeer is one native gRPC caller. Its stream's two directions may be used
// at once, as the Exchange contract has them.
type grpcPeer struct {
	call   Call
	stream grpc.ServerStream
	method string

	in         rpcproxy.Frame // recvMsg
	out        rpcproxy.Frame // sendMsg
	headerSent bool           // sendHeader
	givenID    bool           // the caller named its request
}

func (p *grpcPeer) asked() (verb, method string) { return "", p.method }

func (p *grpcPeer) recvMsg() (mem.BufferSlice, error) {
	err := p.stream.RecvMsg(&p.in)
	if most := p.call.bound.maxBody; err == nil && most > 0 && int64(p.in.Data.Len()) > most {
		p.in.Free()
		return nil, errBodyTooLarge
	}
	if p.call.Route.ClientStreams {
		if err != nil {
			return nil, err
		}
		return p.in.Take(), nil
	}
	return p.onlyMsg(err)
}

// onlyMsg gives the one message of a caller that does not stream, and makes
// sure that it is the only one: err is how its receipt went.
func (p *grpcPeer) onlyMsg(err error) (mem.BufferSlice, error) {
	if errors.Is(err, io.EOF) {
		return nil, errNoMessage
	}
	if err != nil {
		return nil, err
	}
	msg := p.in.Take()
	if err = p.stream.RecvMsg(&p.in); errors.Is(err, io.EOF) {
		return msg, nil
	}
	msg.Free()
	if err == nil {
		p.in.Free()
		return nil, errManyMessages
	}
	return nil, err
}

func (p *grpcPeer) sendHeader(md metadata.MD) error {
	p.headerSent = true
	if md == nil {
		md = metadata.MD{}
	}
	stripAnswer(md)
	// Back to those who sent one, and to all whose call fails: a new value in
	// each answer would push the others out of the connection's HPACK table.
	if p.givenID {
		md[keyRequestID] = []string{p.call.RequestID}
	}
	// Set, not sent: it goes out in one write with the first message, or when
	// the stream road asks for it.
	if p.call.Route.ServerStreams {
		return p.stream.SendHeader(md)
	}
	return p.stream.SetHeader(md)
}

func (p *grpcPeer) sendMsg(msg mem.BufferSlice) error {
	p.out.Data = msg
	defer p.out.Free()
	return p.stream.SendMsg(&p.out)
}

func (p *grpcPeer) setTrailer(md metadata.MD) {
	stripAnswer(md)
	p.stream.SetTrailer(md)
}

// note is for the trailer: an answer without headers stays one.
func (p *grpcPeer) note(md metadata.MD) { p.stream.SetTrailer(md) }

// finish gives the pipeline's outcome as what the grpc.Server answers. An
// answer without headers stays one: the request id goes into its trailers.
func (p *grpcPeer) finish(err error) error {
	failure := describe(err)
	if !p.headerSent || failure != nil && !p.givenID {
		p.stream.SetTrailer(metadata.MD{keyRequestID: []string{p.call.RequestID}})
	}
	if failure == nil {
		return nil
	}
	if f := failure.fixed; f != nil {
		if f.details != nil {
			p.stream.SetTrailer(f.details)
		}
		return f.undetailed
	}
	return failure.Status().Err()
}

// stripAnswer takes out of a backend's metadata what the server writes itself,
// what belongs to the backend's connection, and what gRPC does not allow: the
// server would refuse the whole answer for it.
func stripAnswer(md metadata.MD) {
	for key, values := range md {
		if reservedAnswerKey(key) || !validKey(key) || !strings.HasSuffix(key, "-bin") && !validValues(values) {
			delete(md, key)
		}
	}
}

func reservedAnswerKey(key string) bool {
	switch key {
	case keyRequestID, "content-type", "content-length", "trailer", "te", "host",
		"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	return strings.HasPrefix(key, "grpc-") && key != "grpc-retry-pushback-ms"
}

func addrIP(a net.Addr) string {
	if caller, ok := a.(callerAddr); ok {
		a = caller.Addr
	}
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return hostOf(a.String())
}

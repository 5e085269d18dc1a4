package peers

import (
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
)

// serveGRPCFloor serves the floor for gRPC: every method goes on to the backend
// as bytes, on the unary road but for the one that streams. No metadata goes
// with it in either direction, which a proxy of any use would have to add.
func serveGRPCFloor(lis net.Listener, conn *grpc.ClientConn) error {
	codec := grpc.ForceCodecV2(rawCodec{})
	return grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, ok := grpc.MethodFromServerStream(stream)
			if !ok {
				return fmt.Errorf("no method in the stream's context")
			}
			var request, answer frame
			defer request.free()
			defer answer.free()
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			if method == catalogpb.CatalogService_ListItems_FullMethodName {
				return passStream(stream, conn, method, &request)
			}
			if err := conn.Invoke(stream.Context(), method, &request, &answer, codec); err != nil {
				return err
			}
			return stream.SendMsg(&answer)
		}),
	).Serve(lis)
}

// passStream passes one message to the backend, and what it streams back.
func passStream(to grpc.ServerStream, conn *grpc.ClientConn, method string, request *frame) error {
	desc := &grpc.StreamDesc{ServerStreams: true}
	from, err := conn.NewStream(to.Context(), desc, method, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return err
	}
	if err := from.SendMsg(request); err != nil {
		return err
	}
	var answer frame
	defer answer.free()
	for {
		switch err := from.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := to.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// frame is one message as bytes.
type frame struct{ data mem.BufferSlice }

// frameOf makes a frame of bytes that live as long as the process.
func frameOf(b []byte) *frame { return &frame{mem.BufferSlice{mem.SliceBuffer(b)}} }

func (f *frame) free() {
	f.data.Free()
	f.data = nil
}

// rawCodec passes *frame on without copying. The peers have one of their own,
// so that the floor does not move with the gateway's.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("raw codec cannot marshal a %T", v)
	}
	f.data.Ref()
	return f.data, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("raw codec cannot unmarshal into a %T", v)
	}
	data.Ref()
	f.data.Free()
	f.data = data
	return nil
}

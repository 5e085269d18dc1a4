package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// GRPCRequest is a call with one message, as bytes, to send.
type GRPCRequest struct {
	Method   string // "/package.Service/Method"
	Metadata metadata.MD
	Message  []byte
	Want     string // what the (last) answer's bytes contain
	Answers  int    // how many messages the backend streams; 0: the call is unary
}

// grpcCaller is one caller of several on a connection.
type grpcCaller struct {
	conn    *grpc.ClientConn
	request GRPCRequest
	owner   bool // closes the connection
}

// DialGRPC makes n callers that share conns connections.
func DialGRPC(address string, n, conns int, r GRPCRequest) ([]Caller, error) {
	callers := make([]Caller, 0, n)
	var shared []*grpc.ClientConn
	for i := range n {
		if len(shared) < conns {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, err
			}
			shared = append(shared, conn)
			callers = append(callers, &grpcCaller{conn: conn, request: r, owner: true})
			continue
		}
		callers = append(callers, &grpcCaller{conn: shared[i%conns], request: r})
	}
	return callers, nil
}

func (c *grpcCaller) Call(ctx context.Context) error {
	ctx = metadata.NewOutgoingContext(ctx, c.request.Metadata)
	answer := new(bytesAnswer)
	if c.request.Answers > 0 {
		return c.stream(ctx, answer)
	}
	if err := c.conn.Invoke(ctx, c.request.Method, c.request.Message, answer,
		grpc.ForceCodecV2(bytesCodec{}), grpc.WaitForReady(true)); err != nil {
		return err
	}
	if !bytes.Contains(answer.message, []byte(c.request.Want)) {
		return fmt.Errorf("unexpected answer: %.300q", answer.message)
	}
	return nil
}

// stream reads a stream to its end.
func (c *grpcCaller) stream(ctx context.Context, answer *bytesAnswer) error {
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, c.request.Method,
		grpc.ForceCodecV2(bytesCodec{}), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := s.SendMsg(c.request.Message); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	n := 0
	for {
		err := s.RecvMsg(answer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n++
	}
	if n != c.request.Answers || !bytes.Contains(answer.message, []byte(c.request.Want)) {
		return fmt.Errorf("%d messages, the last: %.300q", n, answer.message)
	}
	return nil
}

func (c *grpcCaller) Close() error {
	if !c.owner {
		return nil
	}
	return c.conn.Close()
}

type bytesAnswer struct{ message []byte }

// bytesCodec sends []byte and receives *bytesAnswer.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("bytes codec cannot marshal a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*bytesAnswer)
	if !ok {
		return fmt.Errorf("bytes codec cannot unmarshal into a %T", v)
	}
	a.message = data.Materialize()
	return nil
}

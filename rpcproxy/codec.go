package rpcproxy

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Frame is one message as bytes, for SendMsg, RecvMsg and Invoke of grpc-go.
type Frame struct {
	Data mem.BufferSlice
}

// Free gives up the message's buffers. Calling it again does nothing.
func (f *Frame) Free() {
	f.Data.Free()
	f.Data = nil
}

// Take hands the buffers over to the caller of Take, who frees them.
func (f *Frame) Take() mem.BufferSlice {
	data := f.Data
	f.Data = nil
	return data
}

// RawCodec returns the codec that passes messages on as bytes, without
// copying. It is for ForceCodecV2 and ForceServerCodecV2 only and never
// registered: its name is "proto", because backends and callers expect
// messages in protobuf's encoding, which these bytes are.
//
// It takes *[Frame]. Sending leaves the frame's buffers with the sender, who
// frees them when SendMsg or Invoke has returned; receiving gives the frame
// buffers of its own and frees those it held before.
func RawCodec() encoding.CodecV2 { return rawCodec{} }

type rawCodec struct{}

// Name is the content-subtype: "application/grpc+proto".
func (rawCodec) Name() string { return "proto" }

// Marshal takes a reference of its own on the frame's buffers: grpc-go frees
// what Marshal returns once it is written, which may be after SendMsg has
// returned, while the sender frees its frame whenever it likes. The slice that
// holds the buffers is shared, too: the sender must not fill it anew.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*Frame)
	if !ok {
		return nil, fmt.Errorf("raw codec cannot marshal a %T", v)
	}
	f.Data.Ref()
	return f.Data, nil
}

// Unmarshal keeps the buffers by taking a reference: grpc-go frees its own as
// soon as Unmarshal returns. The data of a message that came is never nil, be it
// empty.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return fmt.Errorf("raw codec cannot unmarshal into a %T", v)
	}
	data.Ref()
	f.Data.Free()
	f.Data = data
	if data == nil {
		f.Data = mem.BufferSlice{}
	}
	return nil
}

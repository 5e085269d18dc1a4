package testbackend

import (
	"errors"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
)

// Frame is a message as the bytes that it is on the wire.
type Frame []byte

// Codec passes [*Frame] on as it is and does protobuf for everything else. It
// is plain gRPC to the other side.
func Codec() encoding.Codec { return codec{} }

type codec struct{}

var errNotMessage = errors.New("neither a frame nor a protobuf message")

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *Frame:
		return *v, nil
	case proto.Message:
		return proto.Marshal(v)
	}
	return nil, errNotMessage
}

func (codec) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *Frame:
		*v = slices.Clone(data)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, v)
	}
	return errNotMessage
}

package transcode

import (
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The oracle of requests: protojson and dynamicpb.

// errNotJSON: protojson takes some that is no JSON, as {"a":1e}; rpcgate does not.
var errNotJSON = errors.New("not JSON")

// slowBody appends what a body says.
func (m *Method) slowBody(dst, body []byte) ([]byte, error) {
	if !json.Valid(body) {
		return dst, errNotJSON
	}
	if m.wholeBody {
		return m.engine.slowMessage(dst, m.input.desc, body)
	}
	start := len(dst)
	leaf, outer := m.body[len(m.body)-1], m.body[:len(m.body)-1]
	if leaf.inside() != nil {
		dst, err := m.engine.slowMessage(dst, leaf.message.desc, body)
		if err != nil {
			return dst, err
		}
		return wrap(dst, start, m.body), nil
	}
	// protojson knows messages only: a body that is one value of a field is given to it as a message of that
	// field alone.
	object, _ := appendString([]byte{'{'}, []byte(leaf.jsonName))
	object = append(append(append(object, ':'), body...), '}')
	dst, err := m.engine.slowMessage(dst, leaf.desc.ContainingMessage(), object)
	if err != nil {
		return dst, err
	}
	if len(dst) == start {
		return dst, nil
	}
	return wrap(dst, start, outer), nil
}

// slowMessage appends a message given as JSON.
func (e *engine) slowMessage(dst []byte, md protoreflect.MessageDescriptor, body []byte) ([]byte, error) {
	o := protojson.UnmarshalOptions{
		AllowPartial: true, DiscardUnknown: e.discardUnknown, Resolver: e.types, RecursionLimit: maxDepth,
	}
	msg := dynamicpb.NewMessage(md)
	if err := o.Unmarshal(body, msg); err != nil {
		return dst, err
	}
	return proto.MarshalOptions{AllowPartial: true, Deterministic: true}.MarshalAppend(dst, msg)
}

package transcode

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The oracle of responses: dynamicpb and protojson.

// marshalJSON are the rules for answers. What a backend left out that its
// descriptors require is not the caller's concern.
func (e *engine) marshalJSON() protojson.MarshalOptions {
	return protojson.MarshalOptions{
		AllowPartial:    true,
		UseProtoNames:   e.protoNames,
		UseEnumNumbers:  e.enumNumbers,
		EmitUnpopulated: e.emitDefaults,
		Resolver:        e.types,
	}
}

// slowResponse appends a response message as JSON.
func (m *Method) slowResponse(dst, wire []byte) ([]byte, error) {
	out, err := guard(dst, func() ([]byte, error) {
		msg := dynamicpb.NewMessage(m.output.desc)
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: m.engine.types}).Unmarshal(wire, msg); err != nil {
			return nil, err
		}
		if m.response == nil {
			return m.engine.marshalJSON().MarshalAppend(dst, msg)
		}
		return m.engine.slowField(dst, msg, m.response)
	})
	if err != nil {
		return dst, m.responseError(err)
	}
	if len(out)-len(dst) > maxResponse {
		return dst, m.responseError(ErrResponseTooLarge)
	}
	return compact(out, len(dst)), nil
}

// slowField appends the value of one field as JSON. An unset one shows as the
// empty value of its kind: a message without fields, [], {}, 0, "".
func (e *engine) slowField(dst []byte, in protoreflect.Message, path []*fieldPlan) ([]byte, error) {
	for _, f := range path[:len(path)-1] {
		in = in.Get(f.desc).Message()
	}
	f := path[len(path)-1]
	switch set := in.Has(f.desc); {
	case f.isMap && !set:
		return append(dst, "{}"...), nil
	case f.list && !set:
		return append(dst, "[]"...), nil
	case f.isMap, f.list, f.message == nil:
		return e.slowLone(dst, in, f)
	case f.message.special == isValue && !set:
		return append(dst, "null"...), nil
	default:
		return e.marshalJSON().MarshalAppend(dst, in.Get(f.desc).Message().Interface())
	}
}

// slowLone appends the value of a field that is no message. protojson shows
// messages only, so it is shown a message with that field alone.
func (e *engine) slowLone(dst []byte, in protoreflect.Message, f *fieldPlan) ([]byte, error) {
	lone := dynamicpb.NewMessage(f.desc.ContainingMessage())
	lone.Set(f.desc, in.Get(f.desc))
	o := e.marshalJSON()
	if f.message == nil && !f.isMap {
		o.EmitUnpopulated = true // a scalar's zero is shown too
	}
	b, err := o.MarshalAppend(nil, lone)
	if err != nil {
		return dst, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return dst, err
	}
	name := f.desc.JSONName()
	if e.protoNames {
		name = f.desc.TextName()
	}
	return append(dst, fields[name]...), nil
}

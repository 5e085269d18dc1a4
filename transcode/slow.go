package transcode

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The slow engine: dynamicpb and protojson. It takes everything, and says what
// is wrong with what it does not take.

// unmarshalJSON are the rules for bodies. Required fields are checked when the
// whole request is there; see checkRequired.
func (e *engine) unmarshalJSON() protojson.UnmarshalOptions {
	return protojson.UnmarshalOptions{
		AllowPartial:   true,
		DiscardUnknown: e.discardUnknown,
		Resolver:       e.types,
	}
}

// readJSON reads JSON into a message that may nest depth messages, itself included.
func (e *engine) readJSON(body []byte, depth int, msg proto.Message) error {
	if err := checkAnyWork(body); err != nil {
		return err
	}
	o := e.unmarshalJSON()
	o.RecursionLimit = depth
	return o.Unmarshal(body, msg)
}

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

// marshalWire is deterministic so that one request has one form.
func (e *engine) marshalWire() proto.MarshalOptions {
	return proto.MarshalOptions{AllowPartial: true, Deterministic: true}
}

// slowBody appends what a body says, which must be valid JSON.
func (m *Method) slowBody(dst, body []byte) ([]byte, error) {
	if m.wholeBody {
		return m.engine.slowMessage(dst, m.input.desc, body, "")
	}
	start := len(dst)
	leaf, outer := m.body[len(m.body)-1], m.body[:len(m.body)-1]
	var err error
	if leaf.inside() != nil {
		if dst, err = m.engine.slowMessage(dst, leaf.message.desc, body, pathString(m.body)); err != nil {
			return dst, err
		}
		return wrap(dst, start, m.body), nil
	}
	// protojson knows messages only: a body that is one value of a field is given to it as a message of that
	// field alone. As valid JSON it is one value; else it could name further fields. The JSON name is what
	// protojson finds this field by, whatever the others are called.
	object, _ := appendString([]byte{'{'}, []byte(leaf.jsonName))
	object = append(object, ':')
	shift := utf8.RuneCount(object)
	object = append(append(object, body...), '}')
	msg := dynamicpb.NewMessage(leaf.desc.ContainingMessage())
	if err := m.engine.readJSON(object, maxDepth, msg); err != nil {
		return dst, jsonError(body, shift, pathString(m.body), err)
	}
	if dst, err = m.engine.marshalWire().MarshalAppend(dst, msg); err != nil {
		return dst, jsonError(body, shift, pathString(m.body), err)
	}
	return wrap(dst, start, outer), nil
}

// slowMessage appends a message given as JSON; at is its path, for errors.
func (e *engine) slowMessage(dst []byte, md protoreflect.MessageDescriptor, body []byte, at string) ([]byte, error) {
	msg := dynamicpb.NewMessage(md)
	if err := e.readJSON(body, maxDepth, msg); err != nil {
		return dst, jsonError(body, 0, at, err)
	}
	dst, err := e.marshalWire().MarshalAppend(dst, msg)
	if err != nil {
		return dst, jsonError(body, 0, at, err)
	}
	return dst, nil
}

// override takes out of the body's message, dst from start on, what path
// variables replace but would not by merging, and refuses a body that sets
// another member of a variable's oneof.
func (m *Method) override(dst []byte, start int) ([]byte, error) {
	msg := dynamicpb.NewMessage(m.input.desc)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: m.engine.types}).Unmarshal(dst[start:], msg); err != nil {
		return dst, &Error{Reason: "malformed request body", Offset: -1, cause: err}
	}
	for _, v := range m.overrides {
		var in protoreflect.Message = msg
		for i, f := range v.steps {
			if f.oneof >= 0 {
				if other := in.WhichOneof(f.desc.ContainingOneof()); other != nil && other.Number() != f.num {
					return dst, &Error{Field: v.path, Reason: "the body sets another member of oneof " + oneofName(f), Offset: -1}
				}
			}
			if !in.Has(f.desc) {
				break
			}
			if i == len(v.steps)-1 {
				in.Clear(f.desc)
				break
			}
			in = in.Mutable(f.desc).Message()
		}
	}
	dst, err := m.engine.marshalWire().MarshalAppend(dst[:start], msg)
	if err != nil {
		return dst, &Error{Reason: "malformed request body", Offset: -1, cause: err}
	}
	return dst, nil
}

// checkRequired refuses a whole request without a field that proto2 requires.
func (m *Method) checkRequired(wire []byte) error {
	msg := dynamicpb.NewMessage(m.input.desc)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: m.engine.types}).Unmarshal(wire, msg); err != nil {
		return &Error{Reason: "malformed request", Offset: -1, cause: err}
	}
	if path := missing(msg, ""); path != "" {
		return &Error{Field: path, Reason: "required", Offset: -1}
	}
	return nil
}

// missing finds a required field that is not set; empty: none.
func missing(m protoreflect.Message, at string) (path string) {
	required := m.Descriptor().RequiredNumbers()
	for i := range required.Len() {
		if fd := m.Descriptor().Fields().ByNumber(required.Get(i)); !m.Has(fd) {
			return at + string(fd.Name())
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := at + string(fd.Name()) + "."
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				path = missing(v.Message(), name)
				return path == ""
			})
		case fd.IsMap() || fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				if path = missing(v.List().Get(i).Message(), name); path != "" {
					break
				}
			}
		default:
			path = missing(v.Message(), name)
		}
		return path == ""
	})
	return path
}

// slowResponse appends a response message as JSON.
func (m *Method) slowResponse(dst, wire []byte) ([]byte, error) {
	out, err := guard(dst, func() ([]byte, error) {
		msg := dynamicpb.NewMessage(m.output.desc)
		if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: m.engine.types}).Unmarshal(wire, msg); err != nil {
			return nil, err
		}
		if m.response == nil {
			return m.engine.appendJSON(dst, msg, maxResponse)
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

// guard makes an error of a panic. protobuf-go (v1.36.12) panics while it
// unmarshals a map entry into dynamicpb whose key comes twice, the second time
// with another wire type; a backend must not be able to break more than its
// own call with that.
func guard(dst []byte, f func() ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = dst, fmt.Errorf("malformed message: %v", p)
		}
	}()
	return f()
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
		return e.appendJSON(dst, in.Get(f.desc).Message().Interface(), maxResponse)
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
	b, err := appendMessage(nil, lone, o, maxResponse)
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

// compact takes the white space out of the JSON that dst holds from start on;
// protojson puts some in at random.
func compact(dst []byte, start int) []byte {
	out := dst[:start]
	inString := false
	for i := start; i < len(dst); i++ {
		c := dst[i]
		switch {
		case inString && c == '\\':
			out = append(out, c)
			i++
			c = dst[i]
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		out = append(out, c)
	}
	return out
}

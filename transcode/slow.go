package transcode

import (
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

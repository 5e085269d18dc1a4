package transcode

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendJSON appends a message as protojson shows it, if it takes at most limit bytes.
func (e *engine) appendJSON(dst []byte, msg proto.Message, limit int) ([]byte, error) {
	return appendMessage(dst, msg, e.marshalJSON(), limit)
}

// appendMessage refuses a message that is sure to become too large before
// protojson, which knows no bounds, begins.
func appendMessage(dst []byte, msg proto.Message, o protojson.MarshalOptions, limit int) ([]byte, error) {
	s := sizer{defaults: o.EmitUnpopulated, left: limit, least: map[protoreflect.FullName]int{}}
	if s.message(msg.ProtoReflect()); s.left < 0 {
		return dst, ErrResponseTooLarge
	}
	return o.MarshalAppend(dst, msg)
}

// sizer takes off left what messages take as JSON at the least: their braces
// and, where defaults are shown, the names of their fields. What else they
// hold is at most a small multiple of its size on the wire.
type sizer struct {
	defaults bool
	left     int
	least    map[protoreflect.FullName]int
}

func (s *sizer) message(m protoreflect.Message) {
	if s.left -= s.leastOf(m.Descriptor()); s.left < 0 {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				s.message(v.Message())
				return s.left >= 0
			})
		case fd.IsMap() || fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && s.left >= 0; i++ {
				s.message(v.List().Get(i).Message())
			}
		default:
			s.message(v.Message())
		}
		return s.left >= 0
	})
}

func (s *sizer) leastOf(md protoreflect.MessageDescriptor) int {
	if n, ok := s.least[md.FullName()]; ok {
		return n
	}
	n := 1 // a Value may be no more than a digit
	if known, _ := wellKnown(md.FullName()); known == ordinary && s.defaults {
		for i := range md.Fields().Len() {
			if fd := md.Fields().Get(i); fd.ContainingOneof() == nil {
				n += min(len(fd.JSONName()), len(fd.TextName())) + len(`"":0`)
			}
		}
	}
	s.least[md.FullName()] = n
	return n
}

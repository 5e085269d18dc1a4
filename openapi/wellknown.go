package openapi

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// httpBody is the message that stands for a body which is no JSON.
const httpBody = "google.api.HttpBody"

// wellKnown gives the schema of a type that has a JSON form of its own.
func (s *schemas) wellKnown(md protoreflect.MessageDescriptor) (object, bool) {
	switch md.FullName() {
	case "google.protobuf.Timestamp":
		return object{{"type", "string"}, {"format", "date-time"}}, true
	case "google.protobuf.Duration":
		return object{
			{"type", "string"},
			{"pattern", `^-?[0-9]+(\.[0-9]{1,9})?s$`},
			{"examples", texts("1.5s")},
			{"description", "Seconds, with an s behind them."},
		}, true
	case "google.protobuf.FieldMask":
		return object{{"type", "string"}, {"description", "Paths of fields in lowerCamelCase, with commas between: user.displayName,photo."}}, true
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
		"google.protobuf.BytesValue":
		if fd := md.Fields().ByName("value"); fd != nil && fd.Message() == nil && fd.Enum() == nil {
			return nullable(s.scalar(fd.Kind())), true
		}
		return nil, false
	case "google.protobuf.Any":
		return s.refer(md, func(protoreflect.Descriptor) object {
			return object{
				{"type", "object"},
				{"description", "A message of any type, which `@type` names. Its fields stand beside that, or its JSON form under `value` where it has one of its own."},
				{"properties", object{{"@type", object{
					{"type", "string"}, {"description", "The type's full name behind the last slash: type.googleapis.com/shop.User."},
				}}}},
				{"additionalProperties", true},
			}
		}), true
	case "google.protobuf.Struct":
		return s.refer(md, func(protoreflect.Descriptor) object {
			return object{{"type", "object"}, {"description", "Any JSON object."}, {"additionalProperties", true}}
		}), true
	case "google.protobuf.Value":
		return s.refer(md, func(protoreflect.Descriptor) object { return object{{"description", "Any JSON value."}} }), true
	case "google.protobuf.ListValue":
		return s.refer(md, func(protoreflect.Descriptor) object {
			return object{{"type", "array"}, {"description", "Any JSON array."}, {"items", object{}}}
		}), true
	default:
		return nil, false
	}
}

// inText gives the schema of a field's value where it is written as text: in a
// path, a query or a form. ok is false for types that cannot be. asJSON is true
// where the text is itself JSON.
func (s *schemas) inText(fd protoreflect.FieldDescriptor) (schema object, asJSON, ok bool) {
	switch fd.Kind() {
	case protoreflect.GroupKind:
		return nil, false, false
	case protoreflect.MessageKind:
		switch md := fd.Message(); md.FullName() {
		case "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask":
			schema, ok = s.wellKnown(md)
			return schema, false, ok
		case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
			"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
			"google.protobuf.BytesValue":
			value := md.Fields().ByName("value")
			if value == nil {
				return nil, false, false
			}
			return s.inText(value)
		case "google.protobuf.Struct", "google.protobuf.Value":
			schema, ok = s.wellKnown(md)
			return schema, true, ok
		default:
			return nil, false, false
		}
	case protoreflect.EnumKind:
		if fd.Enum().FullName() == "google.protobuf.NullValue" {
			return object{{"type", "string"}, {"enum", texts("NULL_VALUE")}}, false, true
		}
		return s.enum(fd.Enum()), false, true
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{{"type", "number"}, {"format", fd.Kind().String()}}, false, true
	default:
		return s.one(fd), false, true
	}
}

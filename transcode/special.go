package transcode

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// special tells the well-known types that have a JSON or text form of their own.
type special uint8

const (
	ordinary special = iota
	isAny
	isDuration
	isEmpty
	isFieldMask
	isListValue
	isStruct
	isTimestamp
	isValue
	isWrapper
)

// specialOf tells a well-known type by its name, as protojson does. It
// refuses one that is not shaped like the real one, on which protojson would
// fall over.
func specialOf(md protoreflect.MessageDescriptor) (special, error) {
	s, model := wellKnown(md.FullName())
	if s == ordinary {
		return ordinary, nil
	}
	if md.Fields().Len() != model.Fields().Len() {
		return ordinary, fmt.Errorf("message %s is not the well-known type of that name", md.FullName())
	}
	for i := range model.Fields().Len() {
		want := model.Fields().Get(i)
		got := md.Fields().ByNumber(want.Number())
		if got == nil || got.Name() != want.Name() || got.Kind() != want.Kind() || got.Cardinality() != want.Cardinality() || got.IsMap() != want.IsMap() ||
			want.Message() != nil && got.Message().FullName() != want.Message().FullName() {
			return ordinary, fmt.Errorf("message %s is not the well-known type of that name", md.FullName())
		}
	}
	for i := range model.Oneofs().Len() {
		if md.Oneofs().ByName(model.Oneofs().Get(i).Name()) == nil {
			return ordinary, fmt.Errorf("message %s is not the well-known type of that name", md.FullName())
		}
	}
	return s, nil
}

func wellKnown(name protoreflect.FullName) (special, protoreflect.MessageDescriptor) {
	switch name {
	case "google.protobuf.Any":
		return isAny, (*anypb.Any)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Duration":
		return isDuration, (*durationpb.Duration)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Empty":
		return isEmpty, (*emptypb.Empty)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.FieldMask":
		return isFieldMask, (*fieldmaskpb.FieldMask)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.ListValue":
		return isListValue, (*structpb.ListValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Struct":
		return isStruct, (*structpb.Struct)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Timestamp":
		return isTimestamp, (*timestamppb.Timestamp)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Value":
		return isValue, (*structpb.Value)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.BoolValue":
		return isWrapper, (*wrapperspb.BoolValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.BytesValue":
		return isWrapper, (*wrapperspb.BytesValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.DoubleValue":
		return isWrapper, (*wrapperspb.DoubleValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.FloatValue":
		return isWrapper, (*wrapperspb.FloatValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Int32Value":
		return isWrapper, (*wrapperspb.Int32Value)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.Int64Value":
		return isWrapper, (*wrapperspb.Int64Value)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.StringValue":
		return isWrapper, (*wrapperspb.StringValue)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.UInt32Value":
		return isWrapper, (*wrapperspb.UInt32Value)(nil).ProtoReflect().Descriptor()
	case "google.protobuf.UInt64Value":
		return isWrapper, (*wrapperspb.UInt64Value)(nil).ProtoReflect().Descriptor()
	}
	return ordinary, nil
}

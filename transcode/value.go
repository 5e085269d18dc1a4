package transcode

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// appendTextField appends a field, tag and value, from the text form that
// path variables and query parameters have. A singular field's zero value is
// written too: it must win over what was said before. A non-empty reason says
// why the text is no value of the field; dst is as it was then.
//
// What is a value of what kind is grpc-gateway's rule (runtime's convert.go
// and query.go).
func appendTextField(dst []byte, f *fieldPlan, text string) (_ []byte, reason string) {
	start := len(dst)
	dst = protowire.AppendVarint(dst, f.tag)
	if f.message != nil {
		dst, reason = appendTextMessage(dst, f.message, text)
	} else {
		dst, reason = appendTextScalar(dst, f, text)
	}
	if reason != "" {
		return dst[:start], reason
	}
	if f.kind == protoreflect.GroupKind {
		return dst[:start], unsupported(f.message)
	}
	return dst, ""
}

// appendTextScalar appends the value of a scalar, string, bytes or enum field.
func appendTextScalar(dst []byte, f *fieldPlan, text string) ([]byte, string) {
	switch f.kind {
	case protoreflect.StringKind:
		if !utf8.ValidString(text) {
			return dst, "not valid UTF-8"
		}
		return protowire.AppendString(dst, text), ""
	case protoreflect.BytesKind:
		b, err := runtime.Bytes(text)
		if err != nil {
			return dst, "not valid base64"
		}
		return protowire.AppendBytes(dst, b), ""
	case protoreflect.BoolKind:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return dst, "not a valid bool"
		}
		return protowire.AppendVarint(dst, protowire.EncodeBool(v)), ""
	case protoreflect.EnumKind:
		n, ok := f.enum.parse(text)
		if !ok {
			return dst, "not a value of enum " + string(f.enum.name)
		}
		return protowire.AppendVarint(dst, uint64(int64(n))), ""
	case protoreflect.FloatKind:
		v, err := runtime.Float32(text)
		if err != nil {
			return dst, "not a valid float"
		}
		return protowire.AppendFixed32(dst, math.Float32bits(v)), ""
	case protoreflect.DoubleKind:
		v, err := runtime.Float64(text)
		if err != nil {
			return dst, "not a valid double"
		}
		return protowire.AppendFixed64(dst, math.Float64bits(v)), ""
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, err := strconv.ParseUint(text, 10, bitSize(f.kind))
		if err != nil {
			return dst, notInteger(f.kind, err)
		}
		return appendUint(dst, f.kind, v), ""
	default:
		v, err := strconv.ParseInt(text, 10, bitSize(f.kind))
		if err != nil {
			return dst, notInteger(f.kind, err)
		}
		return appendInt(dst, f.kind, v), ""
	}
}

// parse finds a value by its name, or by the number of one that is declared.
func (e *enumPlan) parse(text string) (int32, bool) {
	if n, ok := e.byName[text]; ok {
		return n, true
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, false
	}
	_, ok := e.byNumber[int32(n)]
	return int32(n), ok
}

func bitSize(k protoreflect.Kind) int {
	switch k {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return 64
	default:
		return 32
	}
}

// appendInt appends the value of a signed integer field, which fits its kind.
func appendInt(dst []byte, k protoreflect.Kind, v int64) []byte {
	switch k {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(v))
	case protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(int32(v)))
	case protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, uint64(v))
	default:
		return protowire.AppendVarint(dst, uint64(v))
	}
}

// appendUint appends the value of an unsigned integer field, which fits its kind.
func appendUint(dst []byte, k protoreflect.Kind, v uint64) []byte {
	switch k {
	case protoreflect.Fixed32Kind:
		return protowire.AppendFixed32(dst, uint32(v))
	case protoreflect.Fixed64Kind:
		return protowire.AppendFixed64(dst, v)
	default:
		return protowire.AppendVarint(dst, v)
	}
}

func notInteger(k protoreflect.Kind, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return "out of range for " + k.String()
	}
	return "not a valid " + k.String()
}

func unsupported(mp *messagePlan) string {
	return "message " + string(mp.desc.FullName()) + " cannot be written as a parameter"
}

// appendTextMessage appends the value, length and content, of a message that
// has a text form. Timestamp, Duration and wrappers are written with all
// their fields, so that they replace one that came before.
func appendTextMessage(dst []byte, mp *messagePlan, text string) ([]byte, string) {
	switch mp.special {
	case isTimestamp:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return dst, "not a valid timestamp (RFC 3339, like 2006-01-02T15:04:05Z)"
		}
		if !timestamppb.New(t).IsValid() {
			return dst, "out of range for google.protobuf.Timestamp"
		}
		return appendSeconds(dst, t.Unix(), int32(t.Nanosecond())), ""
	case isDuration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return dst, "not a valid duration (like 1.5s or 2h45m)"
		}
		return appendSeconds(dst, int64(d/time.Second), int32(d%time.Second)), ""
	case isWrapper:
		value := mp.fields[0]
		return prefixLength(dst, func(dst []byte) ([]byte, string) {
			return appendTextScalar(protowire.AppendVarint(dst, value.tag), value, text)
		})
	case isFieldMask:
		if !utf8.ValidString(text) {
			return dst, "not valid UTF-8"
		}
		paths := mp.fields[0]
		return prefixLength(dst, func(dst []byte) ([]byte, string) {
			if text == "" {
				return dst, ""
			}
			for path := range strings.SplitSeq(text, ",") {
				dst = protowire.AppendString(protowire.AppendVarint(dst, paths.tag), path)
			}
			return dst, ""
		})
	case isValue, isStruct:
		return appendJSONText(dst, mp, text)
	case isEmpty:
		if text != "" && text != "{}" {
			return dst, "must be empty or {}"
		}
		return append(dst, 0), ""
	default:
		return dst, unsupported(mp)
	}
}

// appendSeconds appends a Timestamp or Duration, length and content.
func appendSeconds(dst []byte, seconds int64, nanos int32) []byte {
	const secondsTag, nanosTag = 1 << 3, 2 << 3
	n := 2 + protowire.SizeVarint(uint64(seconds)) + protowire.SizeVarint(uint64(int64(nanos)))
	dst = append(dst, byte(n), secondsTag)
	dst = protowire.AppendVarint(dst, uint64(seconds))
	dst = append(dst, nanosTag)
	return protowire.AppendVarint(dst, uint64(int64(nanos)))
}

// prefixLength appends what content appends, after its length.
func prefixLength(dst []byte, content func([]byte) ([]byte, string)) ([]byte, string) {
	mark := len(dst)
	dst, reason := content(append(dst, 0))
	if reason != "" {
		return dst[:mark], reason
	}
	return closeLength(dst, mark), ""
}

// appendJSONText appends a Value or Struct that is written as JSON inside a parameter.
func appendJSONText(dst []byte, mp *messagePlan, text string) ([]byte, string) {
	return prefixLength(dst, func(dst []byte) ([]byte, string) {
		r := &reader{in: []byte(text), out: dst}
		r.space()
		if !r.content(mp, 1) || !r.finish() {
			return dst, "not valid JSON for " + string(mp.desc.FullName())
		}
		return r.out, ""
	})
}

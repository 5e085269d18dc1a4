package transcode

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar writes the value of a scalar, string, bytes or enum field that wire
// begins with; a string's or bytes' is all of wire. It tells how long the
// value is on the wire and whether it is the zero value.
func (w *writer) scalar(f *fieldPlan, wire []byte) (n int, zero, ok bool) {
	switch f.kind {
	case protoreflect.StringKind:
		w.out, ok = appendString(w.out, wire)
		return len(wire), len(wire) == 0, ok
	case protoreflect.BytesKind:
		w.out = append(w.out, '"')
		w.out = base64.StdEncoding.AppendEncode(w.out, wire)
		w.out = append(w.out, '"')
		return len(wire), len(wire) == 0, true
	case protoreflect.BoolKind:
		v, n := varint(wire)
		w.out = strconv.AppendBool(w.out, v != 0)
		return n, v == 0, n > 0
	case protoreflect.EnumKind:
		v, n := varint(wire)
		w.enum(f.enum, int32(v))
		return n, int32(v) == 0, n > 0
	case protoreflect.FloatKind:
		if len(wire) < 4 {
			return 0, false, false
		}
		bits := fixed32(wire)
		w.out = appendFloat(w.out, float64(math.Float32frombits(bits)), 32)
		return 4, bits == 0, true
	case protoreflect.DoubleKind:
		if len(wire) < 8 {
			return 0, false, false
		}
		bits := fixed64(wire)
		w.out = appendFloat(w.out, math.Float64frombits(bits), 64)
		return 8, bits == 0, true
	default:
		return w.integer(f.kind, wire)
	}
}

// integer writes an integer, one of 64 bits in quotes.
func (w *writer) integer(k protoreflect.Kind, wire []byte) (n int, zero, ok bool) {
	quoted := bitSize(k) == 64 && !w.engine.int64Numbers
	if quoted {
		w.out = append(w.out, '"')
	}
	if signed(k) {
		var v int64
		v, n = signedValue(k, wire)
		w.out = strconv.AppendInt(w.out, v, 10)
		zero = v == 0
	} else {
		var v uint64
		v, n = unsignedValue(k, wire)
		w.out = strconv.AppendUint(w.out, v, 10)
		zero = v == 0
	}
	if quoted {
		w.out = append(w.out, '"')
	}
	return n, zero, n > 0
}

// signedValue reads a signed integer and its size, which is not positive if
// it is malformed.
func signedValue(k protoreflect.Kind, wire []byte) (int64, int) {
	switch k {
	case protoreflect.Sfixed32Kind:
		if len(wire) < 4 {
			return 0, 0
		}
		return int64(int32(fixed32(wire))), 4
	case protoreflect.Sfixed64Kind:
		if len(wire) < 8 {
			return 0, 0
		}
		return int64(fixed64(wire)), 8
	}
	v, n := varint(wire)
	switch k {
	case protoreflect.Int32Kind:
		return int64(int32(v)), n
	case protoreflect.Sint32Kind:
		return int64(int32(protowire.DecodeZigZag(v & math.MaxUint32))), n
	case protoreflect.Sint64Kind:
		return protowire.DecodeZigZag(v), n
	default:
		return int64(v), n
	}
}

// unsignedValue reads an unsigned integer and its size, which is not positive
// if it is malformed.
func unsignedValue(k protoreflect.Kind, wire []byte) (uint64, int) {
	switch k {
	case protoreflect.Fixed32Kind:
		if len(wire) < 4 {
			return 0, 0
		}
		return uint64(fixed32(wire)), 4
	case protoreflect.Fixed64Kind:
		if len(wire) < 8 {
			return 0, 0
		}
		return fixed64(wire), 8
	}
	v, n := varint(wire)
	if k == protoreflect.Uint32Kind {
		return uint64(uint32(v)), n
	}
	return v, n
}

// enum writes a value by its name, or by its number where it has none or
// numbers are wanted.
func (w *writer) enum(e *enumPlan, n int32) {
	if e.isNull {
		w.out = append(w.out, "null"...)
		return
	}
	if !w.engine.enumNumbers {
		if name, ok := e.byNumber[n]; ok {
			w.out = append(w.out, '"')
			w.out = append(w.out, name...)
			w.out = append(w.out, '"')
			return
		}
	}
	w.out = strconv.AppendInt(w.out, int64(n), 10)
}

// unsetScalar writes the zero value of a map's value or a wrapper's.
func (w *writer) unsetScalar(f *fieldPlan) {
	var none [8]byte
	wire := none[:]
	if f.kind == protoreflect.StringKind || f.kind == protoreflect.BytesKind {
		wire = nil
	}
	w.scalar(f, wire)
}

// appendFloat appends a number as protojson does: like JavaScript's, but for
// the names of what JSON cannot write.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 {
		small, large := a < 1e-6, a >= 1e21
		if bits == 32 {
			small, large = float32(a) < 1e-6, float32(a) >= 1e21
		}
		if small || large {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, v, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && string(dst[n-4:n-1]) == "e-0" {
		// e-09 to e-9.
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// secondsOf reads the content of a Timestamp or Duration.
func secondsOf(wire []byte) (seconds, nanos int64, ok bool) {
	const secondsTag, nanosTag = 1 << 3, 2 << 3
	var hasSeconds, hasNanos bool
	for len(wire) > 0 {
		tag := wire[0]
		v, n := varint(wire[1:])
		if n <= 0 {
			return 0, 0, false
		}
		switch {
		case tag == secondsTag && !hasSeconds:
			seconds, hasSeconds = int64(v), true
		case tag == nanosTag && !hasNanos:
			nanos, hasNanos = int64(int32(v)), true
		default:
			return 0, 0, false
		}
		wire = wire[1+n:]
	}
	return seconds, nanos, true
}

const nanosPerSecond = int64(time.Second)

// timestamp writes a google.protobuf.Timestamp.
func (w *writer) timestamp(wire []byte) bool {
	seconds, nanos, ok := secondsOf(wire)
	if !ok || seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos >= nanosPerSecond {
		return false
	}
	w.out = append(w.out, '"')
	w.out = time.Unix(seconds, 0).UTC().AppendFormat(w.out, "2006-01-02T15:04:05")
	w.fraction(nanos)
	w.out = append(w.out, 'Z', '"')
	return true
}

// duration writes a google.protobuf.Duration.
func (w *writer) duration(wire []byte) bool {
	seconds, nanos, ok := secondsOf(wire)
	if !ok || seconds < -maxDuration || seconds > maxDuration || nanos <= -nanosPerSecond || nanos >= nanosPerSecond ||
		(seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0) {
		return false
	}
	w.out = append(w.out, '"')
	if seconds < 0 || nanos < 0 {
		w.out = append(w.out, '-')
		seconds, nanos = -seconds, -nanos
	}
	w.out = strconv.AppendInt(w.out, seconds, 10)
	w.fraction(nanos)
	w.out = append(w.out, 's', '"')
	return true
}

// fraction writes nanoseconds with 0, 3, 6 or 9 digits.
func (w *writer) fraction(nanos int64) {
	if nanos == 0 {
		return
	}
	// Ten digits, the first of which becomes the point.
	start := len(w.out)
	w.out = strconv.AppendInt(w.out, nanosPerSecond+nanos, 10)
	w.out[start] = '.'
	for range 2 {
		if n := len(w.out); string(w.out[n-3:]) == "000" {
			w.out = w.out[:n-3]
		}
	}
}

// wrapper writes a google.protobuf wrapper as the value in it.
func (w *writer) wrapper(mp *messagePlan, wire []byte) bool {
	f := mp.fields[0]
	if len(wire) == 0 {
		w.unsetScalar(f)
		return true
	}
	tag, n := varint(wire)
	if n <= 0 || tag != f.tag {
		return false
	}
	start, end := valueSpan(wire, n, protowireType(tag))
	if end != len(wire) {
		return false
	}
	_, _, ok := w.scalar(f, wire[start:end])
	return ok
}

func protowireType(tag uint64) protowire.Type { return protowire.Type(tag & 7) }

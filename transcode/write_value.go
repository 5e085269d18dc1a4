package transcode

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar writes the value of a scalar, string, bytes or enum field that wire
// begins with; a string's or bytes' is all of wire. It tells how long the
// value is on the wire and whether it is the zero value.
func (w *writer) scalar(f *fieldPlan, wire []byte) (n int, zero, ok bool) {
	switch f.kind {
	case protoreflect.StringKind:
		return len(wire), len(wire) == 0, w.text(f, wire)
	case protoreflect.BytesKind:
		w.out = append(w.out, '"')
		w.out = base64.StdEncoding.AppendEncode(w.out, wire)
		w.out = append(w.out, '"')
		return len(wire), len(wire) == 0, true
	case protoreflect.BoolKind:
		v, n := varint(wire)
		if n <= 0 {
			return 0, false, w.fail(errMalformed)
		}
		w.out = strconv.AppendBool(w.out, v != 0)
		return n, v == 0, true
	case protoreflect.EnumKind:
		v, n := varint(wire)
		if n <= 0 {
			return 0, false, w.fail(errMalformed)
		}
		w.enum(f.enum, int32(v))
		return n, int32(v) == 0, true
	case protoreflect.FloatKind:
		if len(wire) < 4 {
			return 0, false, w.fail(errMalformed)
		}
		bits := fixed32(wire)
		w.out = appendFloat(w.out, float64(math.Float32frombits(bits)), 32)
		return 4, bits == 0, true
	case protoreflect.DoubleKind:
		if len(wire) < 8 {
			return 0, false, w.fail(errMalformed)
		}
		bits := fixed64(wire)
		w.out = appendFloat(w.out, math.Float64frombits(bits), 64)
		return 8, bits == 0, true
	default:
		return w.integer(f.kind, wire)
	}
}

// integer writes an integer, one of 64 bits in quotes unless numbers are wanted.
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
	if n <= 0 {
		return 0, false, w.fail(errMalformed)
	}
	return n, zero, true
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
		if uint32(n) < uint32(len(e.quoted)) && e.quoted[n] != "" {
			w.out = append(w.out, e.quoted[n]...)
			return
		}
		if name, ok := e.byNumber[n]; ok {
			w.out = append(w.out, '"')
			w.out = append(w.out, name...)
			w.out = append(w.out, '"')
			return
		}
	}
	w.out = strconv.AppendInt(w.out, int64(n), 10)
}

// defaultValue writes the value of a scalar, string, bytes or enum field that is not set.
func (w *writer) defaultValue(f *fieldPlan) bool {
	_, _, ok := w.scalar(f, f.unset)
	return ok
}

// text writes a string.
func (w *writer) text(f *fieldPlan, s []byte) (ok bool) {
	if w.out, ok = appendString(w.out, s); !ok {
		return w.failIn(f, errNotUTF8)
	}
	return true
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
	if out, ok := appendExact(dst, v, bits); ok {
		return out
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

// appendExact appends what most numbers are: integers, and decimals of few
// digits. It does so faster than strconv, which is to find the shortest decimal
// that reads as v. Here that is known: of decimals with up to 15 digits
// (DBL_DIG), no two read as the same double, and a quotient is the double that
// is nearest to it.
func appendExact(dst []byte, v float64, bits int) ([]byte, bool) {
	// Up to here integers are a step of 1 or less apart, so that all their digits count.
	integers := float64(1 << 53)
	if bits == 32 {
		integers = 1 << 24
	}
	if n := int64(v); -integers < v && v < integers && float64(n) == v {
		if n == 0 && math.Signbit(v) {
			return append(dst, "-0"...), true
		}
		return strconv.AppendInt(dst, n, 10), true
	}
	const scale = 1_000_000
	abs := math.Abs(v)
	if bits != 64 || abs >= 1e15/scale {
		return dst, false
	}
	n := uint64(abs*scale + 0.5)
	if float64(n)/scale != abs {
		return dst, false
	}
	if v < 0 {
		dst = append(dst, '-')
	}
	dst = append(strconv.AppendUint(dst, n/scale, 10), '.')
	for rest, unit := uint32(n%scale), uint32(scale/10); rest > 0; unit /= 10 {
		dst = append(dst, byte('0'+rest/unit))
		rest %= unit
	}
	return dst, true
}

// varint reads a varint and its size, which is not positive if it is malformed.
func varint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

func fixed32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func fixed64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func protowireType(tag uint64) protowire.Type { return protowire.Type(tag & 7) }

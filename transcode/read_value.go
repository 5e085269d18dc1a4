package transcode

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// value reads one value of a field's kind and appends it, without tag.
func (r *reader) value(f *fieldPlan, depth int) bool {
	switch f.kind {
	case protoreflect.StringKind:
		return r.str()
	case protoreflect.MessageKind:
		return r.nested(f.message, depth)
	case protoreflect.EnumKind:
		return r.enum(f.enum)
	case protoreflect.BoolKind:
		switch {
		case r.literal("true"):
			r.out = append(r.out, 1)
			return true
		case r.literal("false"):
			r.out = append(r.out, 0)
			return true
		}
		return false
	case protoreflect.BytesKind:
		return r.base64()
	case protoreflect.DoubleKind:
		v, ok := r.float(64)
		r.out = protowire.AppendFixed64(r.out, math.Float64bits(v))
		return ok
	case protoreflect.FloatKind:
		v, ok := r.float(32)
		r.out = protowire.AppendFixed32(r.out, math.Float32bits(float32(v)))
		return ok
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		neg, v, ok := r.integer()
		if !ok || neg || (bitSize(f.kind) == 32 && v > math.MaxUint32) {
			return false
		}
		r.out = appendUint(r.out, f.kind, v)
		return true
	case protoreflect.GroupKind:
		return false
	default:
		v, ok := r.signed(bitSize(f.kind))
		r.out = appendInt(r.out, f.kind, v)
		return ok
	}
}

// integer reads an integer, with or without quotes.
func (r *reader) integer() (neg bool, v uint64, ok bool) {
	const maxDigits = 20 // of a uint64; 19 fit whatever they are
	quoted := r.next() == '"'
	if quoted {
		r.pos++
	}
	if r.next() == '-' {
		neg = true
		r.pos++
	}
	start := r.pos
	for r.pos < len(r.in) {
		d := r.in[r.pos] - '0'
		if d > 9 {
			break
		}
		v = v*10 + uint64(d)
		r.pos++
	}
	n := r.pos - start
	if n == 0 || n > maxDigits || (n > 1 && r.in[start] == '0') {
		return false, 0, false
	}
	if n == maxDigits {
		var err error
		if v, err = strconv.ParseUint(string(r.in[start:r.pos]), 10, 64); err != nil {
			return false, 0, false
		}
	}
	if quoted {
		if r.next() != '"' {
			return false, 0, false
		}
		r.pos++
	}
	return neg, v, true
}

// signed reads a signed integer of 32 or 64 bits.
func (r *reader) signed(bits int) (int64, bool) {
	neg, v, ok := r.integer()
	limit := uint64(1)<<(bits-1) - 1
	if neg {
		limit++
	}
	if !ok || v > limit {
		return 0, false
	}
	if neg {
		return -int64(v), true
	}
	return int64(v), true
}

// enum reads an enum value by name or number. A name that is not known is for
// the slow engine, which may ignore it.
func (r *reader) enum(e *enumPlan) bool {
	if e.isNull && r.literal("null") {
		r.out = append(r.out, 0)
		return true
	}
	if r.next() != '"' {
		v, ok := r.signed(32)
		r.out = protowire.AppendVarint(r.out, uint64(v))
		return ok
	}
	name, ok := r.plain()
	if !ok {
		return false
	}
	n, ok := e.byName[string(name)]
	r.out = protowire.AppendVarint(r.out, uint64(int64(n)))
	return ok
}

// float reads a number of 32 or 64 bits, or the name of one that JSON cannot write.
func (r *reader) float(bits int) (float64, bool) {
	if r.next() == '"' {
		name, _ := r.plain()
		switch string(name) {
		case "NaN":
			return math.NaN(), true
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
		return 0, false
	}
	text, integer, ok := r.number()
	if !ok {
		return 0, false
	}
	if integer && len(text) <= 7 && text[0] != '-' {
		// Exact in either size.
		v := 0
		for _, d := range text {
			v = v*10 + int(d-'0')
		}
		return float64(v), true
	}
	v, err := strconv.ParseFloat(string(text), bits)
	return v, err == nil
}

// timestamp reads a google.protobuf.Timestamp and appends its content.
func (r *reader) timestamp() bool {
	text, ok := r.plain()
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return false
	}
	seconds := t.Unix()
	if seconds < minTimestamp || seconds > maxTimestamp {
		return false
	}
	// time.Parse takes more digits than a Timestamp has, and a comma.
	if i := bytes.IndexAny(text, ".,"); i >= 0 && r.moreThanNanos(text[i+1:]) {
		return false
	}
	r.seconds(seconds, int32(t.Nanosecond()))
	return true
}

// The range of a google.protobuf.Timestamp: years 1 to 9999.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
)

// moreThanNanos tells whether more than nine digits begin the text.
func (r *reader) moreThanNanos(text []byte) bool {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n > 9
}

// seconds appends the content of a Timestamp or Duration.
func (r *reader) seconds(seconds int64, nanos int32) {
	if seconds != 0 {
		r.out = protowire.AppendVarint(append(r.out, 1<<3), uint64(seconds))
	}
	if nanos != 0 {
		r.out = protowire.AppendVarint(append(r.out, 2<<3), uint64(int64(nanos)))
	}
}

// maxDuration is the largest google.protobuf.Duration, in seconds.
const maxDuration = 315576000000

// duration reads a google.protobuf.Duration of the usual form, "-1.5s", and
// appends its content.
func (r *reader) duration() bool {
	text, ok := r.plain()
	if !ok || len(text) < 2 || text[len(text)-1] != 's' {
		return false
	}
	text = text[:len(text)-1]
	neg := text[0] == '-'
	if neg {
		text = text[1:]
	}
	whole, fraction, dotted := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || len(whole) > 12 || (len(whole) > 1 && whole[0] == '0') || (dotted && len(fraction) == 0) || len(fraction) > 9 {
		return false
	}
	seconds, ok1 := decimal(whole, len(whole))
	nanos, ok2 := decimal(fraction, 9)
	if !ok1 || !ok2 || seconds > maxDuration {
		return false
	}
	if neg {
		seconds, nanos = -seconds, -nanos
	}
	r.seconds(seconds, int32(nanos))
	return true
}

// decimal reads digits, as if zeros followed up to the given width.
func decimal(text []byte, width int) (int64, bool) {
	var v int64
	for i := range width {
		v *= 10
		if i < len(text) {
			d := text[i] - '0'
			if d > 9 {
				return 0, false
			}
			v += int64(d)
		}
	}
	return v, true
}

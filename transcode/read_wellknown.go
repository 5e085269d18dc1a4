package transcode

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// anyJSON reads any JSON and appends the content of a google.protobuf.Value.
func (r *reader) anyJSON(mp *messagePlan, depth int) bool {
	const nullTag, numberTag, stringTag, boolTag, structTag, listTag = 1 << 3, 2<<3 | 1, 3<<3 | 2, 4 << 3, 5<<3 | 2, 6<<3 | 2
	switch c := r.next(); {
	case c == '"':
		r.out = append(r.out, stringTag)
		return r.str()
	case c == '{':
		return r.structValue(structTag, mp.number(structTag>>3).message, depth)
	case c == '[':
		return r.structValue(listTag, mp.number(listTag>>3).message, depth)
	case c == '-' || c >= '0' && c <= '9':
		v, ok := r.float(protoreflect.DoubleKind)
		r.out = protowire.AppendFixed64(append(r.out, numberTag), math.Float64bits(v))
		return ok
	case r.literal("null"):
		r.out = append(r.out, nullTag, 0)
		return true
	case r.literal("true"):
		r.out = append(r.out, boolTag, 1)
		return true
	case r.literal("false"):
		r.out = append(r.out, boolTag, 0)
		return true
	}
	return r.unexpected()
}

// nothing reads a google.protobuf.Empty, which has nothing to append.
func (r *reader) nothing(depth int) bool {
	if !r.open('{') {
		return false
	}
	if r.empty('}') {
		return true
	}
	for {
		at := r.pos
		if _, ok := r.name(); !ok || !r.unknown(at, depth) {
			return false
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

// fieldMask reads a google.protobuf.FieldMask and appends its paths.
func (r *reader) fieldMask(paths *fieldPlan) bool {
	at := r.pos
	if r.next() != '"' {
		return r.unexpected()
	}
	text, ok := r.string()
	if !ok {
		return false
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return true
	}
	for more := true; more; {
		var path []byte
		path, text, more = bytes.Cut(text, []byte{','})
		r.out = append(appendTag(r.out, paths.tag), 0)
		mark := len(r.out) - 1
		begins := true // of an identifier
		for _, c := range path {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && !begins:
			case c >= 'A' && c <= 'Z':
				r.out = append(r.out, '_')
				c += 'a' - 'A'
			case c == '.' && !begins:
				begins = true
				r.out = append(r.out, c)
				continue
			default:
				return r.invalid(at, "google.protobuf.FieldMask")
			}
			begins = false
			r.out = append(r.out, c)
		}
		if begins {
			return r.invalid(at, "google.protobuf.FieldMask")
		}
		r.out = closeLength(r.out, mark)
	}
	return true
}

// timestamp reads a google.protobuf.Timestamp and appends its content.
func (r *reader) timestamp() bool {
	at := r.pos
	if r.next() != '"' {
		return r.unexpected()
	}
	text, ok := r.string()
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return r.invalid(at, "google.protobuf.Timestamp")
	}
	seconds := t.Unix()
	if seconds < minTimestamp || seconds > maxTimestamp {
		return r.fail(at, "out of range for google.protobuf.Timestamp")
	}
	// time.Parse takes more digits than a Timestamp has.
	if i := bytes.LastIndexByte(text, '.'); i >= 0 && digits(text, i+1)-i > len(".999999999") {
		return r.invalid(at, "google.protobuf.Timestamp")
	}
	r.seconds(seconds, int32(t.Nanosecond()))
	return true
}

// The range of a google.protobuf.Timestamp: years 1 to 9999.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
)

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

// duration reads a google.protobuf.Duration and appends its content.
func (r *reader) duration() bool {
	at := r.pos
	if r.next() != '"' {
		return r.unexpected()
	}
	text, ok := r.string()
	if !ok {
		return false
	}
	seconds, nanos, ok := parseDuration(text)
	if !ok {
		return r.invalid(at, "google.protobuf.Duration")
	}
	if seconds < -maxDuration || seconds > maxDuration {
		return r.fail(at, "out of range for google.protobuf.Duration")
	}
	r.seconds(seconds, nanos)
	return true
}

// parseDuration reads seconds with an s after them, as protojson does: a sign,
// and digits only before or only after the point, are good as well.
func parseDuration(text []byte) (seconds int64, nanos int32, ok bool) {
	if len(text) < 2 || text[len(text)-1] != 's' {
		return 0, 0, false
	}
	text = text[:len(text)-1]
	neg := text[0] == '-'
	if neg || text[0] == '+' {
		text = text[1:]
	}
	end := digits(text, 0)
	whole, rest := text[:end], text[end:]
	if len(whole) > 1 && whole[0] == '0' {
		return 0, 0, false
	}
	if len(whole) > 0 {
		v, err := strconv.ParseInt(string(whole), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		seconds = v
	}
	const width = 9
	switch {
	case len(rest) == 0:
		if len(whole) == 0 {
			return 0, 0, false
		}
	case rest[0] != '.' || len(rest)-1 > width || digits(rest, 1) != len(rest):
		return 0, 0, false
	default:
		for i := range width {
			nanos *= 10
			if 1+i < len(rest) {
				nanos += int32(rest[1+i] - '0')
			}
		}
	}
	if neg {
		seconds, nanos = -seconds, -nanos
	}
	return seconds, nanos, true
}

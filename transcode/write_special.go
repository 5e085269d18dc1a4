package transcode

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The well-known types. Their fields may come in any order and more than once,
// like those of any message, and unknown ones beside them.

// skip gives the size of the value of an unknown field after its tag; negative: it is malformed.
func (w *writer) skip(tag uint64, wire []byte) int {
	num := protowire.Number(tag >> 3)
	if tag>>3 > uint64(protowire.MaxValidNumber) || num < protowire.MinValidNumber {
		w.fail(errMalformed)
		return -1
	}
	n := protowire.ConsumeFieldValue(num, protowireType(tag), wire)
	if n < 0 {
		w.fail(errMalformed)
	}
	return n
}

// next reads the tag of a record and, if it is of one of the fields, its
// value. f is nil where it was of neither.
func (w *writer) next(wire []byte, a, b *fieldPlan) (f *fieldPlan, value []byte, n int) {
	tag, n := varint(wire)
	if n <= 0 {
		w.fail(errMalformed)
		return nil, nil, -1
	}
	switch tag {
	case a.tag:
		f = a
	case b.tag:
		f = b
	default:
		size := w.skip(tag, wire[n:])
		if size < 0 {
			return nil, nil, -1
		}
		return nil, nil, n + size
	}
	start, end, n := valueSpan(f, wire, n, protowireType(tag))
	if n < 0 {
		w.fail(errMalformed)
		return nil, nil, -1
	}
	return f, wire[start:end], n
}

// secondsOf reads the content of a Timestamp or Duration.
func (w *writer) secondsOf(wire []byte) (seconds, nanos int64, ok bool) {
	const secondsTag, nanosTag = 1 << 3, 2 << 3
	for len(wire) > 0 {
		tag, n := varint(wire)
		if n <= 0 {
			return 0, 0, w.fail(errMalformed)
		}
		wire = wire[n:]
		if tag != secondsTag && tag != nanosTag {
			if n = w.skip(tag, wire); n < 0 {
				return 0, 0, false
			}
			wire = wire[n:]
			continue
		}
		v, n := varint(wire)
		if n <= 0 {
			return 0, 0, w.fail(errMalformed)
		}
		wire = wire[n:]
		if tag == secondsTag {
			seconds = int64(v)
		} else {
			nanos = int64(int32(v))
		}
	}
	return seconds, nanos, true
}

const nanosPerSecond = int64(time.Second)

// timestamp writes a google.protobuf.Timestamp.
func (w *writer) timestamp(wire []byte) bool {
	seconds, nanos, ok := w.secondsOf(wire)
	if !ok {
		return false
	}
	if seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos >= nanosPerSecond {
		return w.fail(errTimestamp)
	}
	w.out = appendDateTime(append(w.out, '"'), uint64(seconds-minTimestamp))
	w.fraction(nanos)
	w.out = append(w.out, 'Z', '"')
	return true
}

// appendDateTime appends the date and time that is seconds after the beginning
// of year 1, like 2006-01-02T15:04:05. The calendar is that of Howard
// Hinnant's "chrono-Compatible Low-Level Date Algorithms" (civil_from_days),
// whose years begin in March.
func appendDateTime(dst []byte, seconds uint64) []byte {
	const secondsPerDay, beforeYear1, daysPerEra = 24 * 60 * 60, 306, 146097
	days, second := seconds/secondsPerDay+beforeYear1, seconds%secondsPerDay
	era, ofEra := days/daysPerEra, days%daysPerEra
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	month := (5*ofYear + 2) / 153
	day := ofYear - (153*month+2)/5 + 1
	year := era*400 + yearOfEra
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	dst = append(dst, byte('0'+year/1000), byte('0'+year/100%10))
	dst = append(appendTwo(dst, year%100), '-')
	dst = append(appendTwo(dst, month), '-')
	dst = append(appendTwo(dst, day), 'T')
	dst = append(appendTwo(dst, second/3600), ':')
	dst = append(appendTwo(dst, second/60%60), ':')
	return appendTwo(dst, second%60)
}

func appendTwo(dst []byte, n uint64) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// duration writes a google.protobuf.Duration.
func (w *writer) duration(wire []byte) bool {
	seconds, nanos, ok := w.secondsOf(wire)
	if !ok {
		return false
	}
	if seconds < -maxDuration || seconds > maxDuration || nanos <= -nanosPerSecond || nanos >= nanosPerSecond ||
		(seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0) {
		return w.fail(errDuration)
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
	last := f.unset
	for len(wire) > 0 {
		found, value, n := w.next(wire, f, f)
		if n < 0 {
			return false
		}
		if found != nil {
			if !w.checkValue(f, last, 0) {
				return false
			}
			last = value
		}
		wire = wire[n:]
	}
	_, _, ok := w.scalar(f, last)
	return ok
}

// fieldMask writes a google.protobuf.FieldMask: its paths in lowerCamelCase,
// parted by commas. A path that would not come back as it was is refused.
func (w *writer) fieldMask(mp *messagePlan, wire []byte) bool {
	f := mp.fields[0]
	w.out = append(w.out, '"')
	first := true
	for len(wire) > 0 {
		found, path, n := w.next(wire, f, f)
		if n < 0 || w.full() {
			return false
		}
		wire = wire[n:]
		if found == nil {
			continue
		}
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		if !protoreflect.FullName(path).IsValid() {
			return w.fail(errFieldMask)
		}
		for i := 0; i < len(path); i++ {
			c := path[i]
			if c == '_' {
				if i++; i == len(path) || path[i] < 'a' || path[i] > 'z' {
					return w.fail(errFieldMask)
				}
				c = path[i] - 'a' + 'A'
			} else if 'A' <= c && c <= 'Z' {
				return w.fail(errFieldMask)
			}
			w.out = append(w.out, c)
		}
	}
	w.out = append(w.out, '"')
	return true
}

// structValue writes a google.protobuf.Struct as an object.
func (w *writer) structValue(mp *messagePlan, wire []byte, depth int) bool {
	f := mp.fields[0]
	base := len(w.entries)
	for len(wire) > 0 {
		n, ok := w.collect(f, wire, depth)
		if !ok {
			return false
		}
		if n == 0 {
			if _, _, n = w.next(wire, f, f); n < 0 {
				return false
			}
		}
		wire = wire[n:]
	}
	return w.writeEntries(f, base, depth)
}

// listValue writes a google.protobuf.ListValue as an array.
func (w *writer) listValue(mp *messagePlan, wire []byte, depth int) bool {
	f := mp.fields[0]
	w.out = append(w.out, '[')
	for len(wire) > 0 {
		n, ok := w.elements(f, wire, depth)
		if !ok {
			return false
		}
		if n == 0 {
			if _, _, n = w.next(wire, f, f); n < 0 {
				return false
			}
		}
		wire = wire[n:]
	}
	w.out = append(w.out, ']')
	return true
}

// dynamicValue writes a google.protobuf.Value as what it holds.
func (w *writer) dynamicValue(mp *messagePlan, wire []byte, depth int) bool {
	// Nearly always there is one record.
	if tag, n := varint(wire); n > 0 {
		if f := mp.number(protowire.Number(min(tag>>3, 1<<29))); f != nil && tag == f.tag {
			if start, end, next := valueSpan(f, wire, n, protowireType(tag)); next == len(wire) {
				return w.kind(f, wire[start:end], depth)
			}
		}
	}
	slots, records := len(w.slots), len(w.records)
	if !w.scan(mp, wire, depth) {
		return false
	}
	set := w.slots[slots+len(mp.fields)].first
	if set == 0 {
		return w.fail(errValueUnset)
	}
	f := mp.fields[set-1]
	s := w.slots[slots+f.index]
	last := w.records[s.last-1]
	value, ok := wire[last.start:last.end], true
	if f.message != nil {
		value, ok = w.content(f, s, wire, depth)
	} else if !w.checkReplaced(f, s, wire) {
		return false
	}
	w.slots, w.records = w.slots[:slots], w.records[:records]
	return ok && w.kind(f, value, depth)
}

// kind writes the member of a google.protobuf.Value that is set.
func (w *writer) kind(f *fieldPlan, value []byte, depth int) bool {
	if f.message != nil {
		return w.value(f.message, value, depth+1)
	}
	if f.kind == protoreflect.DoubleKind {
		if v := math.Float64frombits(fixed64(value)); math.IsNaN(v) || math.IsInf(v, 0) {
			return w.fail(errValueNumber)
		}
	}
	_, _, ok := w.scalar(f, value)
	return ok
}

// any writes a google.protobuf.Any: the message in it as an object that names
// its type, too, or with its value apart if it has a JSON form of its own.
func (w *writer) any(mp *messagePlan, wire []byte, depth int) bool {
	typeField, valueField := mp.fields[0], mp.fields[1]
	var url, content []byte
	for len(wire) > 0 {
		f, value, n := w.next(wire, typeField, valueField)
		if n < 0 {
			return false
		}
		switch f {
		case nil:
		case typeField:
			if !w.checkValue(f, url, 0) {
				return false
			}
			url = value
		default:
			content = value
		}
		wire = wire[n:]
	}
	if len(url) == 0 {
		if len(content) > 0 {
			return w.fail(errAnyType)
		}
		w.out = append(w.out, "{}"...)
		return true
	}
	inside, err := w.engine.lookup.messageByURL(url)
	if err != nil {
		return w.fail(err)
	}
	w.out = append(w.out, `{"@type":`...)
	if !w.text(typeField, url) {
		return false
	}
	if inside.special == ordinary || inside.special == isEmpty {
		if !w.members(inside, content, depth+1) {
			return false
		}
	} else {
		w.out = append(w.out, `,"value":`...)
		if !w.value(inside, content, depth+1) {
			return false
		}
	}
	w.out = append(w.out, '}')
	return true
}

package transcode

import (
	"strconv"
	"time"
)

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

package transcode

import (
	"bytes"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// timestamp reads a google.protobuf.Timestamp and appends its content.
func (r *reader) timestamp() bool {
	at := r.pos
	text, ok := r.quoted()
	if !ok {
		return false
	}
	t, ok := parseTime(text)
	if !ok {
		return r.invalid(at, "google.protobuf.Timestamp")
	}
	seconds := t.Unix()
	if seconds < minTimestamp || seconds > maxTimestamp {
		return r.fail(at, "out of range for google.protobuf.Timestamp")
	}
	r.seconds(seconds, int32(t.Nanosecond()))
	return true
}

// The range of a google.protobuf.Timestamp: years 1 to 9999.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
)

// parseTime reads a time of RFC 3339 as protojson does, which takes what
// time.Parse takes, but no more digits after the point than a Timestamp has.
func parseTime(text []byte) (time.Time, bool) {
	if t, ok := parseUsualTime(text); ok {
		return t, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return t, false
	}
	i := bytes.LastIndexByte(text, '.')
	return t, i < 0 || digits(text, i+1)-i <= len(".999999999")
}

// parseUsualTime reads a time by the letter of RFC 3339. time.Parse makes a
// zone of each offset.
func parseUsualTime(text []byte) (t time.Time, ok bool) {
	const layout = "2006-01-02T15:04:05"
	if len(text) < len(layout)+1 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return t, false
	}
	year, ok1 := decimal(text[:4])
	month, ok2 := decimal(text[5:7])
	day, ok3 := decimal(text[8:10])
	hour, ok4 := decimal(text[11:13])
	minute, ok5 := decimal(text[14:16])
	second, ok6 := decimal(text[17:19])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	rest := text[len(layout):]
	nanos := 0
	if rest[0] == '.' {
		end := digits(rest, 1)
		if nanos, ok = fraction(rest[1:end]); !ok {
			return t, false
		}
		rest = rest[end:]
	}
	offset := 0
	if string(rest) != "Z" {
		if len(rest) != len("+00:00") || rest[0] != '+' && rest[0] != '-' || rest[3] != ':' {
			return t, false
		}
		hours, ok1 := decimal(rest[1:3])
		minutes, ok2 := decimal(rest[4:])
		if !ok1 || !ok2 || hours > 23 || minutes > 59 {
			return t, false
		}
		offset = (hours*60 + minutes) * 60
		if rest[0] == '-' {
			offset = -offset
		}
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second-offset, nanos, time.UTC)
	// A day that the month does not have becomes one of the next month's.
	return t, day <= 28 || time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

// decimal reads digits, of which there are few.
func decimal(text []byte) (int, bool) {
	v := 0
	for _, c := range text {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int(d)
	}
	return v, true
}

// fraction reads the digits after a point, as nanoseconds.
func fraction(text []byte) (nanos int, ok bool) {
	const width = 9
	if len(text) == 0 || len(text) > width {
		return 0, false
	}
	nanos, ok = decimal(text)
	for range width - len(text) {
		nanos *= 10
	}
	return nanos, ok
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

// duration reads a google.protobuf.Duration and appends its content.
func (r *reader) duration() bool {
	at := r.pos
	text, ok := r.quoted()
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
	switch {
	case len(rest) == 0:
		if len(whole) == 0 {
			return 0, 0, false
		}
	case rest[0] != '.':
		return 0, 0, false
	case len(rest) > 1:
		n, ok := fraction(rest[1:])
		if !ok {
			return 0, 0, false
		}
		nanos = int32(n)
	}
	if neg {
		seconds, nanos = -seconds, -nanos
	}
	return seconds, nanos, true
}

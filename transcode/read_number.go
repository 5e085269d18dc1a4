package transcode

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scanNumber finds the end of the number that in has at i, by JSON's grammar,
// and tells whether it has neither fraction nor exponent. ok: there is one.
func scanNumber(in []byte, i int) (end int, integer, ok bool) {
	if i < len(in) && in[i] == '-' {
		i++
	}
	switch {
	case i < len(in) && in[i] == '0':
		i++
	case i < len(in) && in[i] >= '1' && in[i] <= '9':
		i = digits(in, i)
	default:
		return i, false, false
	}
	integer = true
	if i < len(in) && in[i] == '.' {
		integer = false
		j := digits(in, i+1)
		if j == i+1 {
			return j, false, false
		}
		i = j
	}
	if i < len(in) && (in[i] == 'e' || in[i] == 'E') {
		integer = false
		i++
		if i < len(in) && (in[i] == '+' || in[i] == '-') {
			i++
		}
		j := digits(in, i)
		if j == i {
			return j, false, false
		}
		i = j
	}
	return i, integer, true
}

// digits skips digits from i on.
func digits(in []byte, i int) int {
	for i < len(in) && in[i] >= '0' && in[i] <= '9' {
		i++
	}
	return i
}

// number reads a number's text, and tells whether it has neither fraction nor exponent.
func (r *reader) number() (text []byte, integer, ok bool) {
	start := r.pos
	end, integer, ok := scanNumber(r.in, start)
	if !ok {
		if end == len(r.in) {
			return nil, false, r.fail(end, tooShort)
		}
		return nil, false, r.fail(start, malformed)
	}
	r.pos = end
	return r.in[start:end], integer, true
}

// numberText reads a number, with or without quotes. named: names of floats
// that JSON cannot write are good, too. A nil text without a fault is no number.
func (r *reader) numberText(named bool) (text []byte, integer, ok bool) {
	switch c := r.next(); {
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case c != '"':
		return nil, false, true
	}
	if text, ok = r.string(); !ok {
		return nil, false, false
	}
	if named {
		switch string(text) {
		case "NaN", "Infinity", "-Infinity":
			return text, false, true
		}
	}
	end, integer, ok := scanNumber(text, 0)
	if !ok || end != len(text) {
		return nil, false, true
	}
	return text, integer, true
}

// integer reads an integer of the kind.
func (r *reader) integer(k protoreflect.Kind) (neg bool, v uint64, ok bool) {
	const maxDigits = 19 // which fit a uint64, whatever they are
	start, i := r.pos, r.pos
	quoted := r.next() == '"'
	if quoted {
		i++
	}
	if i < len(r.in) && r.in[i] == '-' {
		neg = true
		i++
	}
	first := i
	for i < len(r.in) {
		d := r.in[i] - '0'
		if d > 9 {
			break
		}
		v = v*10 + uint64(d)
		i++
	}
	n := i - first
	if n >= 1 && n <= maxDigits && (n == 1 || r.in[first] != '0') && i < len(r.in) {
		switch c := r.in[i]; {
		case quoted && c == '"':
			r.pos = i + 1
			return neg && v != 0, v, true
		case !quoted && c != '.' && c|0x20 != 'e':
			r.pos = i
			return neg && v != 0, v, true
		}
	}
	text, _, ok := r.numberText(false)
	if !ok {
		return false, 0, false
	}
	if neg, v, ok = parseInteger(text); !ok {
		return false, 0, r.invalid(start, k.String())
	}
	return neg, v, true
}

// parseInteger gives the value of a number of JSON's grammar, however it is
// written, if it is an integer of 64 bits. As protojson has it, an exponent
// makes no more than 20 digits, and none that are not in the text.
func parseInteger(text []byte) (neg bool, v uint64, ok bool) {
	if len(text) == 0 {
		return false, 0, false
	}
	if text[0] == '-' {
		neg, text = true, text[1:]
	}
	end := digits(text, 0)
	whole, rest := text[:end], text[end:]
	if string(whole) == "0" {
		whole = nil
	}
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		end = digits(rest, 1)
		fraction, rest = bytes.TrimRight(rest[1:end], "0"), rest[end:]
	}
	if len(whole) == 0 && len(fraction) == 0 {
		return false, 0, true
	}
	exponent := 0
	if len(rest) > 0 {
		e, err := strconv.ParseInt(string(rest[1:]), 10, 32)
		if err != nil {
			return false, 0, false
		}
		exponent = int(e)
	}
	const maxDigits = 20 // of a uint64
	zeros := 0
	if exponent >= 0 {
		zeros = exponent - len(fraction)
		if zeros < 0 || len(whole)+exponent > maxDigits {
			return false, 0, false
		}
	} else {
		i := len(whole) + exponent
		if len(fraction) > 0 || i < 0 || len(bytes.TrimRight(whole[i:], "0")) > 0 {
			return false, 0, false
		}
		whole = whole[:i]
	}
	ok = len(whole) <= maxDigits
	push := func(d byte) {
		high, low := bits.Mul64(v, 10)
		low, carry := bits.Add64(low, uint64(d), 0)
		ok = ok && high == 0 && carry == 0
		v = low
	}
	for i := 0; ok && i < len(whole); i++ {
		push(whole[i] - '0')
	}
	for i := 0; ok && i < len(fraction); i++ {
		push(fraction[i] - '0')
	}
	for i := 0; ok && i < zeros; i++ {
		push(0)
	}
	return neg, v, ok
}

// unsigned reads an unsigned integer of the kind.
func (r *reader) unsigned(k protoreflect.Kind) (uint64, bool) {
	start := r.pos
	neg, v, ok := r.integer(k)
	if !ok {
		return 0, false
	}
	if neg || (bitSize(k) == 32 && v > math.MaxUint32) {
		return 0, r.invalid(start, k.String())
	}
	return v, true
}

// signed reads a signed integer of the kind.
func (r *reader) signed(k protoreflect.Kind) (int64, bool) {
	start := r.pos
	neg, v, ok := r.integer(k)
	if !ok {
		return 0, false
	}
	limit := uint64(1)<<(bitSize(k)-1) - 1
	if neg {
		limit++
	}
	if v > limit {
		return 0, r.invalid(start, k.String())
	}
	if neg {
		return -int64(v), true
	}
	return int64(v), true
}

// float reads a number of the kind, or the name of one that JSON cannot write.
func (r *reader) float(k protoreflect.Kind) (float64, bool) {
	start := r.pos
	text, integer, ok := r.numberText(true)
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
	switch string(text) {
	case "":
		return 0, r.invalid(start, k.String())
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	size := 64
	if k == protoreflect.FloatKind {
		size = 32
	}
	v, err := strconv.ParseFloat(string(text), size)
	return v, err == nil || r.invalid(start, k.String())
}

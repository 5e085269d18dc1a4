package transcode

import (
	"bytes"
	"encoding/base64"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// str reads a string and appends it, length and content.
func (r *reader) str() bool {
	if r.next() != '"' {
		return false
	}
	start := r.pos + 1
	ascii := true
	for i := start; i < len(r.in); i++ {
		if i += plain(r.in[i:]); i == len(r.in) {
			return false
		}
		c := r.in[i]
		if c >= utf8.RuneSelf {
			ascii = false
			continue
		}
		if c == '\\' {
			return r.escaped(start, i)
		}
		if c != '"' {
			return false
		}
		content := r.in[start:i]
		if !ascii && !utf8.Valid(content) {
			return false
		}
		r.pos = i + 1
		r.out = protowire.AppendVarint(r.out, uint64(len(content)))
		r.out = append(r.out, content...)
		return true
	}
	return false
}

// escaped reads a string whose first escape is at i.
func (r *reader) escaped(start, i int) bool {
	mark := len(r.out)
	r.out = append(r.out, 0)
	for i < len(r.in) {
		switch c := r.in[i]; {
		case c == '"':
			r.out = append(r.out, r.in[start:i]...)
			// An escape is a whole character, so the pieces between are valid if the whole is.
			if !utf8.Valid(r.out[mark+1:]) {
				return false
			}
			r.pos = i + 1
			r.out = closeLength(r.out, mark)
			return true
		case c == '\\':
			r.out = append(r.out, r.in[start:i]...)
			n := r.escape(i)
			if n == 0 {
				return false
			}
			i += n
			start = i
		case c < ' ':
			return false
		default:
			i++
		}
	}
	return false
}

// escape appends the character of the escape at i and returns the length of
// the escape; 0: it is malformed.
func (r *reader) escape(i int) int {
	if i+1 >= len(r.in) {
		return 0
	}
	c := r.in[i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		high, ok := r.hex4(i)
		if !ok {
			return 0
		}
		if !utf16.IsSurrogate(high) {
			r.out = utf8.AppendRune(r.out, high)
			return 6
		}
		low, ok := r.hex4(i + 6)
		if !ok {
			return 0
		}
		c := utf16.DecodeRune(high, low)
		if c == utf8.RuneError {
			return 0
		}
		r.out = utf8.AppendRune(r.out, c)
		return 12
	default:
		return 0
	}
	r.out = append(r.out, c)
	return 2
}

// hex4 reads \uXXXX at i.
func (r *reader) hex4(i int) (rune, bool) {
	if i+6 > len(r.in) || r.in[i] != '\\' || r.in[i+1] != 'u' {
		return 0, false
	}
	var v rune
	for _, c := range r.in[i+2 : i+6] {
		v <<= 4
		switch {
		case c >= '0' && c <= '9':
			v |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			v |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			v |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return v, true
}

// base64 reads a string in either base64 alphabet, padded or not, and appends
// the bytes, length and content.
func (r *reader) base64() bool {
	text, ok := r.plain()
	if !ok {
		return false
	}
	enc, raw := base64.StdEncoding, base64.RawStdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		enc, raw = base64.URLEncoding, base64.RawURLEncoding
	}
	if len(text)%4 != 0 {
		enc = raw
	}
	mark := len(r.out)
	out, err := enc.AppendDecode(append(r.out, 0), text)
	if err != nil {
		return false
	}
	r.out = closeLength(out, mark)
	return true
}

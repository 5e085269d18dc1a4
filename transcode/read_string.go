package transcode

import (
	"bytes"
	"encoding/base64"
	"unicode/utf16"
	"unicode/utf8"
)

// name reads a member's name and the colon after it. The name is part of the
// input or of the scratch space for strings, good until the next string.
func (r *reader) name() ([]byte, bool) {
	if r.next() != '"' {
		return nil, r.unexpected()
	}
	text, ok := r.string()
	return text, ok && r.colon()
}

// quoted reads what must be a string.
func (r *reader) quoted() ([]byte, bool) {
	if r.next() != '"' {
		return nil, r.unexpected()
	}
	return r.string()
}

// colon skips the colon after a name, and the white space around it.
func (r *reader) colon() bool {
	r.space()
	if r.next() != ':' {
		if r.pos == len(r.in) {
			return r.fail(r.pos, tooShort)
		}
		return r.fail(r.pos, `malformed JSON: missing ":" after a name`)
	}
	r.pos++
	r.space()
	return true
}

// string reads a string that begins here. What it is, is part of the input or
// of the scratch space for strings, good until the next string.
func (r *reader) string() ([]byte, bool) {
	start := r.pos + 1
	ascii := true
	for i := start; ; i++ {
		if i += plain(r.in[i:]); i == len(r.in) {
			return nil, r.fail(i, tooShort)
		}
		switch c := r.in[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			return r.unescape(start)
		case c < ' ':
			return nil, r.fail(i, controlCharacter)
		default:
			content := r.in[start:i]
			r.pos = i + 1
			return content, ascii || r.utf8(start, content)
		}
	}
}

// unescape reads a string with escapes, whose content begins at start, into
// the scratch space.
func (r *reader) unescape(start int) ([]byte, bool) {
	out, ok := r.appendUnescaped(r.text[:0], start)
	r.text = out
	return out, ok
}

// appendUnescaped reads a string with escapes, whose content begins at start.
func (r *reader) appendUnescaped(dst []byte, start int) ([]byte, bool) {
	for i := start; ; {
		n := plain(r.in[i:])
		for i+n < len(r.in) && r.in[i+n] >= utf8.RuneSelf {
			n++
			n += plain(r.in[i+n:])
		}
		// An escape is a whole character, so the pieces between are valid on their own.
		if !r.utf8(i, r.in[i:i+n]) {
			return dst, false
		}
		dst = append(dst, r.in[i:i+n]...)
		if i += n; i == len(r.in) {
			return dst, r.fail(i, tooShort)
		}
		switch c := r.in[i]; c {
		case '"':
			r.pos = i + 1
			return dst, true
		case '\\':
			if dst, n = appendUnescapedRune(dst, r.in[i:]); n == 0 {
				if i+1 == len(r.in) {
					return dst, r.fail(i+1, tooShort)
				}
				return dst, r.fail(i, "malformed escape in a string")
			}
			i += n
		default:
			return dst, r.fail(i, controlCharacter)
		}
	}
}

// utf8 refuses text, which is at start, if it is not UTF-8.
func (r *reader) utf8(start int, text []byte) bool {
	if utf8.Valid(text) {
		return true
	}
	i := 0
	for {
		c, n := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && n == 1 {
			return r.fail(start+i, "not valid UTF-8")
		}
		i += n
	}
}

// str reads a string and appends it, length and content.
func (r *reader) str() bool {
	if r.next() != '"' {
		return r.invalid(r.pos, "string")
	}
	start := r.pos + 1
	ascii := true
	for i := start; ; i++ {
		if i += plain(r.in[i:]); i == len(r.in) {
			return r.fail(i, tooShort)
		}
		c := r.in[i]
		if c >= utf8.RuneSelf {
			ascii = false
			continue
		}
		if c == '\\' {
			mark := len(r.out)
			out, ok := r.appendUnescaped(append(r.out, 0), start)
			if !ok {
				return false
			}
			r.out = closeLength(out, mark)
			return true
		}
		if c != '"' {
			return r.fail(i, controlCharacter)
		}
		content := r.in[start:i]
		if !ascii && !r.utf8(start, content) {
			return false
		}
		r.pos = i + 1
		r.out = appendTag(r.out, uint64(len(content)))
		r.out = append(r.out, content...)
		return true
	}
}

// appendUnescapedRune appends the character of the escape that in begins with and
// returns the length of the escape; 0: it is malformed.
func appendUnescapedRune(dst, in []byte) ([]byte, int) {
	if len(in) < 2 {
		return dst, 0
	}
	c := in[1]
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
		high, ok := hex4(in)
		if !ok {
			return dst, 0
		}
		if !utf16.IsSurrogate(high) {
			return utf8.AppendRune(dst, high), 6
		}
		low, ok := hex4(in[6:])
		if !ok {
			return dst, 0
		}
		c := utf16.DecodeRune(high, low)
		if c == utf8.RuneError {
			return dst, 0
		}
		return utf8.AppendRune(dst, c), 12
	default:
		return dst, 0
	}
	return append(dst, c), 2
}

// hex4 reads the \uXXXX that in begins with.
func hex4(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	var v rune
	for _, c := range in[2:6] {
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
	at := r.pos
	if r.next() != '"' {
		return r.invalid(at, "base64 string")
	}
	text, ok := r.string()
	if !ok {
		return false
	}
	mark := len(r.out)
	out, err := base64Of(text).AppendDecode(append(r.out, 0), text)
	if err != nil {
		return r.fail(at, "not valid base64")
	}
	r.out = closeLength(out, mark)
	return true
}

// base64Of finds the encoding that a text is in.
func base64Of(text []byte) *base64.Encoding {
	url := bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0
	padded := len(text)%4 == 0
	switch {
	case url && padded:
		return base64.URLEncoding
	case url:
		return base64.RawURLEncoding
	case padded:
		return base64.StdEncoding
	default:
		return base64.RawStdEncoding
	}
}

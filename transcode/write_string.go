package transcode

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, escaped as protojson does: quotes,
// backslashes and control characters, nothing else. It reports false when s
// is not valid UTF-8; what is appended is then of no use.
func appendString[S string | []byte](dst []byte, s S) ([]byte, bool) {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			// The rest in one go: what is not ASCII rarely stands alone.
			n, ok := plainUTF8(s[i:])
			if !ok {
				return dst, false
			}
			i += n
			continue
		case c >= ' ' && c != '"' && c != '\\':
			i++
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		done = i
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"'), true
}

// plainUTF8 measures the characters at the beginning of s that are not ASCII.
func plainUTF8[S string | []byte](s S) (int, bool) {
	n := 0
	for n < len(s) && s[n] >= utf8.RuneSelf {
		r, size := decodeRune(s[n:])
		if r == utf8.RuneError && size <= 1 {
			return 0, false
		}
		n += size
	}
	return n, true
}

func decodeRune[S string | []byte](s S) (rune, int) {
	// At most the bytes of one character are copied.
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

package transcode

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, escaped as protojson does: quotes,
// backslashes and control characters, nothing else. It reports false when s
// is not valid UTF-8; what is appended is then of no use.
func appendString(dst, s []byte) ([]byte, bool) {
	dst = append(dst, '"')
	n := plain(s)
	dst = append(dst, s[:n]...)
	if n < len(s) {
		if s = s[n:]; !utf8.Valid(s) {
			return dst, false
		}
		for len(s) > 0 {
			if n = unescaped(s); n == 0 {
				dst = appendEscape(dst, s[0])
				s = s[1:]
				continue
			}
			dst = append(dst, s[:n]...)
			s = s[n:]
		}
	}
	return append(dst, '"'), true
}

// appendEscape appends the escape of a quote, backslash or control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}

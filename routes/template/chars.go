package template

func isIdent(c byte, digits bool) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || digits && isDigit(c)
}

// isPChar tells whether c may stand for itself in a path segment (RFC 3986,
// section 3.3).
func isPChar(c byte) bool {
	if isIdent(c, true) {
		return true
	}
	switch c {
	case '-', '.', '~', // unreserved
		'!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', // sub-delims
		':', '@':
		return true
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unhex gives the value of a hex digit.
func unhex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	default:
		return c - 'A' + 10
	}
}

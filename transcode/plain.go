package transcode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// plain counts the bytes at the beginning of b that stand for themselves in a
// JSON string: ASCII but for control characters, quotes and backslashes. It
// looks at eight bytes at once; the tests for a byte that is zero, or less
// than another, are those of Sean Anderson's "Bit Twiddling Hacks", of which
// the lowest bit that is set is exact.
func plain(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		if special := (x | escaped(x)) & highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// unescaped does the same, but takes what is not ASCII for itself, too.
func unescaped(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		if special := escaped(binary.LittleEndian.Uint64(b[i:])) & highs; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// escaped sets the high bit of the first byte that is a control character, a
// quote or a backslash, and none before it.
func escaped(x uint64) uint64 {
	quote, backslash := x^ones*'"', x^ones*'\\'
	return (x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash
}

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
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote := x ^ ones*'"'
		backslash := x ^ ones*'\\'
		special := x | (x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash
		if special &= highs; special != 0 {
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

package transcode

import (
	"bytes"
	"testing"
)

func TestPlain(t *testing.T) {
	// Every byte at every place among plain ones, with every byte after it.
	for c := range 256 {
		for at := range 20 {
			for _, after := range []byte{0, 'a', '"', 0x7f, 0xff, byte(c)} {
				b := bytes.Repeat([]byte{'~'}, 20)
				b[at] = byte(c)
				if at+1 < len(b) {
					b[at+1] = after
				}
				want := 0
				for want < len(b) && b[want] >= ' ' && b[want] < 0x80 && b[want] != '"' && b[want] != '\\' {
					want++
				}
				if got := plain(b); got != want {
					t.Fatalf("plain(%q) = %d, want %d", b, got, want)
				}
				for want < len(b) && (b[want] >= 0x80 || b[want] >= ' ' && b[want] != '"' && b[want] != '\\') {
					want++
				}
				if got := unescaped(b); got != want {
					t.Fatalf("unescaped(%q) = %d, want %d", b, got, want)
				}
			}
		}
	}
}

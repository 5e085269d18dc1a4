package wire_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func TestText(t *testing.T) {
	t.Parallel()
	var text []byte
	var want string
	for _, chunk := range []string{"a", "bc", "", "def", strings.Repeat("long ", 5000), "x"} {
		text = wire.AppendText(text, []byte(chunk))
		want += chunk
	}
	for _, source := range []io.Reader{
		bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text)),
		iotest.HalfReader(bytes.NewReader(text)),
	} {
		got, err := io.ReadAll(wire.NewTextReader(source))
		if err != nil || string(got) != want {
			t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
		}
	}
}

func TestBadText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"A", "AB", "ABC", "AAAAA", "AA=A", "A===", "====", "AA==A", "A*AA", "AAAA\n", "AAA\nAAAA", "AA==\r\nAA==", "AB==", "AAB=", "-_-_",
	} {
		if got, err := io.ReadAll(wire.NewTextReader(strings.NewReader(text))); !errors.Is(err, wire.ErrBadText) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	broken := errors.New("broken")
	r := wire.NewTextReader(io.MultiReader(strings.NewReader("AAAAAA"), iotest.ErrReader(broken)))
	if got, err := io.ReadAll(r); !errors.Is(err, broken) || len(got) != 3 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// FuzzText: what is accepted are groups of four, each of which is base64.
func FuzzText(f *testing.F) {
	f.Add("QQ==QUI=QUJD", uint8(1))
	f.Add("QUJD====", uint8(2))
	f.Add("QUJ\nD", uint8(3))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		got, err := io.ReadAll(wire.NewTextReader(&stepReader{strings.NewReader(text), int(step) + 1}))
		var want []byte
		ok := len(text)%4 == 0
		for rest := text; ok && rest != ""; rest = rest[4:] {
			group, groupErr := base64.StdEncoding.Strict().DecodeString(rest[:4])
			ok = groupErr == nil && !strings.ContainsAny(rest[:4], "\r\n")
			want = append(want, group...)
		}
		if ok != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if ok && !bytes.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
	})
}

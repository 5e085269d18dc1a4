package wire_test

import (
	"bufio"
	"bytes"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1S": time.Second, "250m": 250 * time.Millisecond, "2M": 2 * time.Minute, "1H": time.Hour, "5u": 5 * time.Microsecond,
		"99999999n": 99999999, "99999999H": wire.MaxTimeout, "0S": 1, "0n": 1,
		"": 0, "S": 0, "1": 0, "1s": 0, "-1S": 0, "+1S": 0, " 1S": 0, "1.5S": 0, "123456789S": 0,
	} {
		if got, ok := wire.ParseGRPCTimeout(text); ok != (want != 0) || ok && got != want {
			t.Errorf("grpc-timeout %q: %v, %v", text, got, ok)
		}
	}
	for text, want := range map[string]time.Duration{
		"1": time.Millisecond, "1500": 1500 * time.Millisecond, "0": 1, "9999999999": wire.MaxTimeout, "0000000001": time.Millisecond,
		"": 0, "-1": 0, "+1": 0, "1.5": 0, "1s": 0, "12345678901": 0, "\uff11": 0,
	} {
		if got, ok := wire.ParseConnectTimeout(text); ok != (want != 0) || ok && got != want {
			t.Errorf("connect-timeout-ms %q: %v, %v", text, got, ok)
		}
	}
}

func FuzzTimeouts(f *testing.F) {
	for _, seed := range []string{"1S", "99999999H", "250", "0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) (time.Duration, bool){wire.ParseGRPCTimeout, wire.ParseConnectTimeout} {
			if d, ok := parse(s); ok && (d <= 0 || d > wire.MaxTimeout) {
				t.Fatalf("%q: %v", s, d)
			}
		}
	})
}

func TestEncodeMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "plain text, with ~!": "plain text, with ~!", "100%": "100%25", "ä\r\n\x7f": "%C3%A4%0D%0A%7F", "\xff": "%FF",
	} {
		if got := wire.EncodeMessage(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzEncodeMessage: what is encoded is printable ASCII and decodes to the same.
func FuzzEncodeMessage(f *testing.F) {
	f.Add("100% \u00e4\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		encoded := wire.EncodeMessage(text)
		if strings.ContainsFunc(encoded, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q: %q", text, encoded)
		}
		if decoded, err := url.PathUnescape(encoded); err != nil || decoded != text {
			t.Fatalf("%q: %q, %v", text, decoded, err)
		}
	})
}

func TestWebTrailers(t *testing.T) {
	t.Parallel()
	block := wire.AppendWebTrailer(nil, "grpc-status", "3")
	block = wire.AppendWebTrailer(block, "grpc-message", wire.EncodeMessage("bad\r\nx: y"))
	block = wire.AppendWebTrailer(block, "tail", "one")
	block = wire.AppendWebTrailer(block, "tail", "")
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(block, "\r\n"...)))).ReadMIMEHeader()
	if err != nil || len(h) != 3 || h.Get("Grpc-Status") != "3" || h.Get("Grpc-Message") != "bad%0D%0Ax: y" || len(h["Tail"]) != 2 {
		t.Errorf("%q: %v, %v", block, h, err)
	}
}

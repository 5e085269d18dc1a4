package wire_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// What is registered with grpc-go works as it wants a compressor to.
func TestRegister(t *testing.T) { //nolint:paralleltest // it changes grpc-go's registry
	wire.Register()
	for _, name := range []string{wire.Gzip, wire.Zstd} {
		c := encoding.GetCompressor(name)
		if c == nil || c.Name() != name {
			t.Fatalf("%s is not registered", name)
		}
		for range 3 {
			var packed bytes.Buffer
			w, err := c.Compress(&packed)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Repeat("a message. ", 1000)
			_, _ = io.WriteString(w, text)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := c.Decompress(&packed)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := io.ReadAll(r); err != nil || string(out) != text {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: after the end: %d, %v", name, n, err)
			}
		}
		if _, err := c.Decompress(strings.NewReader("no")); err == nil {
			if r, _ := c.Decompress(strings.NewReader("no such data")); r != nil {
				if _, err := io.ReadAll(r); err == nil {
					t.Errorf("%s: bad data is accepted", name)
				}
			}
		}
	}
}

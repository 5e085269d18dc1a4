package wire_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

const testLimit = 1 << 20

func texts() map[string]string {
	return map[string]string{
		"nothing": "", "short": "a", "text": strings.Repeat("a message. ", 1000), "at the limit": strings.Repeat("x", testLimit),
	}
}

func eachCompression(t *testing.T, run func(t *testing.T, c *wire.Compression)) {
	t.Helper()
	all := wire.NewCompressors(testLimit)
	for name := range strings.SplitSeq(all.Names(), ",") {
		t.Run(name, func(t *testing.T) { run(t, all.Find(name)) })
	}
}

func TestCompressWhole(t *testing.T) {
	t.Parallel()
	eachCompression(t, func(t *testing.T, c *wire.Compression) {
		for name, text := range texts() {
			packed, err := c.Compress([]byte("before"), []byte(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out, err := c.Decompress([]byte("first "), packed[len("before"):])
			if err != nil || string(out) != "first "+text {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
		}
	})
}

func TestCompressStream(t *testing.T) {
	t.Parallel()
	eachCompression(t, func(t *testing.T, c *wire.Compression) {
		for range 3 { // what is reused must not remember
			for name, text := range texts() {
				var packed bytes.Buffer
				w := c.NewWriter(&packed)
				for chunk := range strings.Lines(strings.ReplaceAll(text, ".", "\n")) {
					if _, err := io.WriteString(w, chunk); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				r, err := c.NewReader(iotest.OneByteReader(&packed), testLimit)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				out, err := io.ReadAll(r)
				if want := strings.ReplaceAll(text, ".", "\n"); err != nil || string(out) != want {
					t.Errorf("%s: %d bytes, want %d, %v", name, len(out), len(want), err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// What is flushed can be read before the writer is closed.
func TestFlush(t *testing.T) {
	t.Parallel()
	eachCompression(t, func(t *testing.T, c *wire.Compression) {
		from, to := io.Pipe()
		w := c.NewWriter(to)
		go func() {
			_, _ = io.WriteString(w, "now")
			_ = w.Flush()
		}()
		r, err := c.NewReader(from, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "now" {
			t.Errorf("%q, %v", got, err)
		}
		_ = from.Close()
	})
}

// A small message that becomes a huge one is refused, and costs no more memory
// than the limit allows.
func TestBombs(t *testing.T) {
	t.Parallel()
	bombs := map[string][]byte{wire.Gzip: gzipped(t, testLimit+1), wire.Zstd: zstandard(t, testLimit+1)}
	eachCompression(t, func(t *testing.T, c *wire.Compression) {
		if out, err := c.Decompress(nil, bombs[c.Name()]); !errors.Is(err, wire.ErrTooLarge) || out != nil {
			t.Errorf("whole: %d bytes, %v", len(out), err)
		}
		r, err := c.NewReader(bytes.NewReader(bombs[c.Name()]), testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(r); !errors.Is(err, wire.ErrTooLarge) || len(out) > testLimit {
			t.Errorf("stream: %d bytes, %v", len(out), err)
		}
		_ = r.Close()
	})
}

// A frame that wants more memory than a decoder should have is refused.
func TestZstdWindow(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	e, err := zstd.NewWriter(&packed, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = e.Write(bytes.Repeat([]byte("x"), 1<<20))
	_ = e.Flush() // so that the frame has a window, and no size
	_, _ = e.Write([]byte("y"))
	_ = e.Close()
	c := wire.NewCompressors(1 << 30).Find(wire.Zstd)
	if _, err := c.Decompress(nil, packed.Bytes()); err == nil {
		t.Error("whole: accepted")
	}
	r, err := c.NewReader(&packed, 1<<30)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		_ = r.Close()
	}
	if err == nil {
		t.Error("stream: accepted")
	}
}

func TestBadCompression(t *testing.T) {
	t.Parallel()
	whole := map[string][]byte{wire.Gzip: gzipped(t, 5000), wire.Zstd: zstandard(t, 5000)}
	eachCompression(t, func(t *testing.T, c *wire.Compression) {
		good := whole[c.Name()]
		for name, bad := range map[string][]byte{
			"no such data": []byte("not compressed at all"), "one byte": {0x1f},
			"cut off": good[:len(good)/2], "the end is missing": good[:len(good)-1], "more after it": append(bytes.Clone(good), "more"...),
		} {
			if out, err := c.Decompress(nil, bad); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("whole, %s: %d bytes, %v", name, len(out), err)
			}
			r, err := c.NewReader(bytes.NewReader(bad), testLimit)
			if err == nil {
				_, err = io.ReadAll(r)
				_ = r.Close()
			}
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("stream, %s: %v", name, err)
			}
		}
		// And nothing of it sticks.
		if out, err := c.Decompress(nil, good); err != nil || len(out) != 5000 {
			t.Errorf("good data after bad: %d bytes, %v", len(out), err)
		}
	})
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	all := wire.NewCompressors(0)
	for accept, want := range map[string]string{
		"": "", "identity": "", "br": "", "gzip": "gzip", "zstd": "zstd", "br, zstd ,gzip": "zstd", "identity,gzip": "gzip",
		"gzip;q=0, zstd;q=0.5": "zstd", "gzip;q=0.000": "", "gzip;q=1.0": "gzip", "gzip ; q=0.1": "gzip", ",,gzip": "gzip", "GZIP": "",
	} {
		got := ""
		if c := all.Negotiate(accept); c != nil {
			got = c.Name()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

func gzipped(t testing.TB, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := stdgzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, size))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, size int) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(make([]byte, size), nil)
}

// FuzzDecompress: whatever comes, both ways of reading it agree, and neither
// gives more than the limit.
func FuzzDecompress(f *testing.F) {
	const limit = 4 << 10
	all := wire.NewCompressors(limit)
	f.Add(gzipped(f, 100))
	f.Add(gzipped(f, limit+1))
	f.Add(zstandard(f, 100))
	f.Add(zstandard(f, limit+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{wire.Gzip, wire.Zstd} {
			c := all.Find(name)
			whole, err := c.Decompress(nil, data)
			if len(data) == 0 {
				continue // which is no data at all to the one, and cut off to the other
			}
			var streamed []byte
			r, streamErr := c.NewReader(bytes.NewReader(data), limit)
			if streamErr == nil {
				streamed, streamErr = io.ReadAll(r)
				_ = r.Close()
			}
			if len(whole) > limit || len(streamed) > limit {
				t.Fatalf("%s: %d and %d bytes", name, len(whole), len(streamed))
			}
			if (err == nil) != (streamErr == nil) {
				t.Fatalf("%s: whole %v, streamed %v", name, err, streamErr)
			}
			if err == nil && !bytes.Equal(whole, streamed) {
				t.Fatalf("%s: whole %q, streamed %q", name, whole, streamed)
			}
		}
	})
}

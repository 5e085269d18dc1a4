package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Names of encodings, as every protocol has them.
const (
	Identity = "identity" // not compressed
	Gzip     = "gzip"
	Zstd     = "zstd"
)

// ErrTooLarge says that a message, or what it decompresses to, is larger than
// the limit.
var ErrTooLarge = errors.New("larger than the limit")

// Compressors are the compressions that are spoken, with what they keep for
// reuse. Any number of goroutines may use them.
type Compressors struct {
	gzip, zstd *Compression
}

// NewCompressors makes the compressions of one server. limit, in bytes, bounds
// what [Compression.Decompress] makes of a message; 0 or less: nothing does.
func NewCompressors(limit int64) *Compressors {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return &Compressors{gzip: &Compression{Gzip, newGzip(limit)}, zstd: &Compression{Zstd, newZstd(limit)}}
}

// Find gives the compression of a name; nil where it is not known, and for
// identity and the empty name, which compress nothing.
func (c *Compressors) Find(name string) *Compression {
	switch name {
	case Gzip:
		return c.gzip
	case Zstd:
		return c.zstd
	}
	return nil
}

// Names lists the compressions as headers like Grpc-Accept-Encoding do.
func (c *Compressors) Names() string { return Gzip + "," + Zstd }

// Negotiate picks the first compression of a list like that of
// Grpc-Accept-Encoding or Accept-Encoding that is known; nil: none. What the
// list refuses by q=0 is not picked; other weights do not count.
func (c *Compressors) Negotiate(accept string) *Compression {
	for accept != "" {
		var item string
		item, accept, _ = strings.Cut(accept, ",")
		name, weight, _ := strings.Cut(item, ";")
		if found := c.Find(strings.TrimSpace(name)); found != nil && !refused(weight) {
			return found
		}
	}
	return nil
}

// refused tells a weight of zero: "q=0", "q=0.000".
func refused(weight string) bool {
	q, ok := strings.CutPrefix(strings.TrimSpace(weight), "q=")
	return ok && strings.Trim(q, "0.") == ""
}

// Compression is one way to compress.
type Compression struct {
	name string
	scheme
}

// scheme is how a [Compression] works.
type scheme interface {
	compress(dst, src []byte) ([]byte, error)
	decompress(dst, src []byte) ([]byte, error)
	newReader(r io.Reader) (io.ReadCloser, error)
	newWriter(w io.Writer) Writer
}

// Name is the compression's name in headers.
func (c *Compression) Name() string { return c.name }

// Compress appends src, compressed, to dst.
func (c *Compression) Compress(dst, src []byte) ([]byte, error) { return c.compress(dst, src) }

// Decompress appends what src decompresses to to dst. Its errors are
// [ErrTooLarge], and others that say what is wrong with src. No bytes are no
// bytes, compressed or not.
func (c *Compression) Decompress(dst, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return dst, nil
	}
	out, err := c.decompress(dst, src)
	if err != nil {
		return dst, c.fault(err)
	}
	return out, nil
}

func (c *Compression) fault(err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("bad %s data: %w", c.name, err)
}

// A Writer compresses what is written to it. Close ends the compressed data,
// gives the writer's memory back, and leaves alone what lies below. Where a write
// below has failed it does not, since that may yet read what it was given, as
// net/http does over HTTP/2.
type Writer interface {
	io.WriteCloser
	// Flush writes out what was written so far in a form that can be read.
	Flush() error
}

// NewWriter gives a writer that compresses into w. It must be closed, and not
// be used after that.
func (c *Compression) NewWriter(w io.Writer) Writer { return c.newWriter(w) }

// NewReader gives a reader of what r's data decompresses to, at most limit
// bytes of it: a byte more is [ErrTooLarge]. It must be closed, and not be used
// after that; r stays open. Data that is no such compression may show at once
// or when it is read.
func (c *Compression) NewReader(r io.Reader, limit int64) (io.ReadCloser, error) {
	inner, err := c.newReader(r)
	if err != nil {
		return nil, c.fault(err)
	}
	return &limitedReader{compression: c, inner: inner, left: limit}, nil
}

// limitedReader gives ErrTooLarge where io.LimitedReader would give io.EOF.
type limitedReader struct {
	compression *Compression
	inner       io.ReadCloser
	left        int64
}

func (r *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left {
		p = p[:r.left+1] // one more tells that there is more
	}
	n, err := r.inner.Read(p)
	if int64(n) > r.left {
		return int(r.left), ErrTooLarge
	}
	r.left -= int64(n)
	if err != nil {
		err = r.compression.fault(err)
	}
	return n, err
}

func (r *limitedReader) Close() error { return r.inner.Close() }

// sliceWriter is an io.Writer that appends.
type sliceWriter struct{ data []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}

// readBounded appends what r gives to dst, at most limit bytes.
func readBounded(dst []byte, r io.Reader, limit int64) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case int64(len(dst)-start) > limit:
			return dst, ErrTooLarge
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

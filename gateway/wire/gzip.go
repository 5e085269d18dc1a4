package wire

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipScheme is RFC 1952, in as many members as come.
type gzipScheme struct {
	limit            int64
	readers, writers sync.Pool // of *gzipReader, *gzipWriter
}

func newGzip(limit int64) *gzipScheme { return &gzipScheme{limit: limit} }

type gzipReader struct {
	gzip.Reader
	pool   *sync.Pool
	source bytes.Reader // of whole messages
}

type gzipWriter struct {
	*gzip.Writer
	pool *sync.Pool
	sink sliceWriter // of whole messages
}

func (g *gzipScheme) writer() *gzipWriter {
	if w, ok := g.writers.Get().(*gzipWriter); ok {
		return w
	}
	// The fastest level: the gateway has many callers and one processor's time.
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is a valid one
	return &gzipWriter{Writer: w, pool: &g.writers}
}

func (g *gzipScheme) compress(dst, src []byte) ([]byte, error) {
	w := g.writer()
	w.sink.data = dst
	w.Reset(&w.sink)
	_, err := w.Write(src)
	if closeErr := w.Writer.Close(); err == nil {
		err = closeErr
	}
	dst, w.sink.data = w.sink.data, nil
	g.writers.Put(w)
	return dst, err
}

func (g *gzipScheme) newWriter(sink io.Writer) Writer {
	w := g.writer()
	w.Reset(sink)
	return w
}

func (w *gzipWriter) Close() error {
	if err := w.Writer.Close(); err != nil {
		return err
	}
	w.Reset(io.Discard)
	w.pool.Put(w)
	return nil
}

func (g *gzipScheme) reader() *gzipReader {
	if r, ok := g.readers.Get().(*gzipReader); ok {
		return r
	}
	return &gzipReader{pool: &g.readers}
}

func (g *gzipScheme) decompress(dst, src []byte) ([]byte, error) {
	r := g.reader()
	defer g.readers.Put(r)
	r.source.Reset(src)
	defer r.source.Reset(nil)
	if err := r.Reset(&r.source); err != nil {
		return dst, noEOF(err)
	}
	return readBounded(dst, &r.Reader, g.limit)
}

func (g *gzipScheme) newReader(source io.Reader) (io.ReadCloser, error) {
	r := g.reader()
	if err := r.Reset(source); err != nil {
		g.readers.Put(r)
		return nil, noEOF(err)
	}
	return r, nil
}

func (r *gzipReader) Close() error {
	r.pool.Put(r)
	return nil
}

// noEOF is for readers that say io.EOF of data that is cut off before its first
// byte of content.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // the bare one, and not what wraps it
		return io.ErrUnexpectedEOF
	}
	return err
}

package wire

import (
	"errors"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow bounds what a reader keeps of what it has read. RFC 8878 tells
// decoders to support 8 MiB, and encoders not to want more.
const maxZstdWindow = 8 << 20

// zstdScheme is RFC 8878 without dictionaries.
type zstdScheme struct {
	limit int64
	// Whole messages share one encoder and one decoder, each of which has as
	// many states as there are processors. They are made when first needed.
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)

	readers, writers sync.Pool // of *zstdReader, *zstdWriter
}

func newZstd(limit int64) *zstdScheme {
	return &zstdScheme{
		limit: limit,
		encoder: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
		}),
		decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxZstdWindow),
				// Not less than the window, though a message may be: its encoder need
				// not have known how long it would become.
				zstd.WithDecoderMaxMemory(max(uint64(limit), maxZstdWindow)))
		}),
	}
}

type zstdReader struct {
	*zstd.Decoder
	pool *sync.Pool
}

type zstdWriter struct {
	*zstd.Encoder
	pool *sync.Pool
}

func (z *zstdScheme) compress(dst, src []byte) ([]byte, error) {
	e, err := z.encoder()
	if err != nil {
		return dst, err
	}
	return e.EncodeAll(src, dst), nil
}

func (z *zstdScheme) decompress(dst, src []byte) ([]byte, error) {
	d, err := z.decoder()
	if err != nil {
		return dst, err
	}
	// Into what is free of dst: the decoder counts what it is given as its own.
	start := len(dst)
	out, err := d.DecodeAll(src, dst[start:start:cap(dst)])
	switch {
	case err != nil:
		return dst, zstdFault(err)
	case int64(len(out)) > z.limit:
		return dst, ErrTooLarge
	case start == 0:
		return out, nil
	}
	return append(dst, out...), nil
}

// writerWindow bounds how far back a stream's writer looks for what repeats. It
// has room for twice that for as long as the stream is open: with 1 MiB, a writer
// held 1.6 MB, with this 0.8 MB, as gzip's does.
const writerWindow = 256 << 10

// newWriter starts no goroutine: what is written is compressed at once.
func (z *zstdScheme) newWriter(sink io.Writer) Writer {
	if w, ok := z.writers.Get().(*zstdWriter); ok {
		w.Reset(sink)
		return w
	}
	e, err := zstd.NewWriter(sink, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(writerWindow))
	if err != nil {
		panic(err) // the options are wrong, whatever is written
	}
	return &zstdWriter{Encoder: e, pool: &z.writers}
}

func (w *zstdWriter) Close() error {
	if err := w.Encoder.Close(); err != nil {
		return err
	}
	w.Reset(nil)
	w.pool.Put(w)
	return nil
}

func (z *zstdScheme) newReader(source io.Reader) (io.ReadCloser, error) {
	r, ok := z.readers.Get().(*zstdReader)
	if !ok {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderMaxMemory(math.MaxInt64))
		if err != nil {
			return nil, err
		}
		r = &zstdReader{Decoder: d, pool: &z.readers}
	}
	if err := r.Reset(source); err != nil {
		z.readers.Put(r)
		return nil, zstdFault(err)
	}
	return r, nil
}

func (r *zstdReader) Read(p []byte) (int, error) {
	n, err := r.Decoder.Read(p)
	return n, zstdFault(err)
}

func (r *zstdReader) Close() error {
	err := r.Reset(nil)
	r.pool.Put(r)
	if errors.Is(err, zstd.ErrDecoderNilInput) {
		return nil
	}
	return err
}

func zstdFault(err error) error {
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return ErrTooLarge
	}
	return err
}

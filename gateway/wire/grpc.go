package wire

import (
	"errors"
	"io"

	"google.golang.org/grpc/encoding"
)

// Register adds gzip and zstd to grpc-go's registry of compressors, by which
// its servers and clients find them: it has no other way. It is called once,
// before there are any. How much a message may decompress to is theirs to say.
func Register() {
	all := NewCompressors(0)
	encoding.RegisterCompressor(grpcCompressor{all.gzip})
	encoding.RegisterCompressor(grpcCompressor{all.zstd})
}

type grpcCompressor struct{ *Compression }

func (c grpcCompressor) Compress(w io.Writer) (io.WriteCloser, error) { return c.NewWriter(w), nil }

func (c grpcCompressor) Decompress(r io.Reader) (io.Reader, error) {
	inner, err := c.newReader(r)
	if err != nil {
		return nil, c.fault(err)
	}
	return &selfClosing{compression: c.Compression, inner: inner}, nil
}

// selfClosing gives what it holds back at the end of the data, since grpc-go
// closes no reader. One that is not read to its end goes to the garbage.
type selfClosing struct {
	compression *Compression
	inner       io.ReadCloser // nil: at the end
}

func (r *selfClosing) Read(p []byte) (int, error) {
	if r.inner == nil {
		return 0, io.EOF
	}
	n, err := r.inner.Read(p)
	if err == nil {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		_ = r.inner.Close() // it was read to its end
		r.inner = nil
	}
	return n, r.compression.fault(err)
}

package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
)

// ErrBadText says that the body of a gRPC-Web-text request is not base64.
var ErrBadText = errors.New("the body is not base64")

// AppendText appends src as one chunk of gRPC-Web-text: base64 with padding.
func AppendText(dst, src []byte) []byte { return base64.StdEncoding.AppendEncode(dst, src) }

// textChunk is how many bytes of base64 are decoded at a time.
const textChunk = 1 << 10

// TextReader decodes gRPC-Web-text: base64 in one or more chunks, each with its
// own padding, as callers that send message by message make them.
type TextReader struct {
	source io.Reader
	err    error // source's, once what came before it is given out

	in      [textChunk]byte // in[:n] was read and not decoded
	n       int
	out     [textChunk / 4 * 3]byte
	pending []byte // of out: decoded and not given out
}

// NewTextReader gives a reader of what source holds.
func NewTextReader(source io.Reader) *TextReader { return &TextReader{source: source} }

// Read implements [io.Reader]. The error is [ErrBadText] where what comes next
// is not base64, or ends within a group of four.
func (t *TextReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(t.pending) == 0 {
		if t.n >= 4 {
			if err := t.decode(); err != nil {
				return 0, err
			}
			continue
		}
		if t.err != nil {
			if t.n > 0 && errors.Is(t.err, io.EOF) {
				return 0, ErrBadText
			}
			return 0, t.err
		}
		n, err := t.source.Read(t.in[t.n:])
		t.n += n
		t.err = err
	}
	n := copy(p, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}

// decode decodes the groups of four that are there, up to the first with
// padding: it ends a chunk.
func (t *TextReader) decode() error {
	whole := t.n / 4 * 4
	padding := 0
	if i := bytes.IndexByte(t.in[:whole], '='); i >= 0 {
		whole = (i/4 + 1) * 4
		padding = whole - i
	}
	// Groups are counted, since the decoder passes over line ends.
	n, err := base64.StdEncoding.Strict().Decode(t.out[:], t.in[:whole])
	if err != nil || n != whole/4*3-padding {
		return ErrBadText
	}
	t.pending = t.out[:n]
	t.n = copy(t.in[:], t.in[whole:t.n])
	return nil
}

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Flags of an envelope.
const (
	FlagCompressed byte = 1 << 0
	FlagEndStream  byte = 1 << 1 // Connect: the envelope holds the end of the stream
	FlagTrailers   byte = 1 << 7 // gRPC-Web: the envelope holds the trailers
)

// EnvelopeHeaderSize is how many bytes stand before a message.
const EnvelopeHeaderSize = 5

// ErrTruncated says that a body ended within an envelope.
var ErrTruncated = errors.New("the body ends within a message")

// PutEnvelopeHeader fills in what stands before a message of size bytes: its
// flags, and its length in four bytes, the most significant first.
func PutEnvelopeHeader(h *[EnvelopeHeaderSize]byte, flags byte, size int) {
	h[0] = flags
	binary.BigEndian.PutUint32(h[1:], uint32(size))
}

// EnvelopeReader reads the messages of a body, one after the other. Its fields
// are set before the first one is read.
type EnvelopeReader struct {
	Source io.Reader
	// How many bytes a message may have.
	Limit int64
	// What is read ahead goes here; it has room for a header at least. Small
	// messages that come together are so read together.
	Stage []byte
	// If set, it is told when a part of a message is there and the rest is being
	// waited for, and when that is over.
	Waiting func(bool)

	from, to int // Stage[from:to] was read and not given out
}

// More waits for the next message to begin, and tells whether one does. Where
// there is none, the error is nil at the end of the body.
func (r *EnvelopeReader) More() (bool, error) {
	for r.from == r.to {
		err := r.fill()
		if r.from < r.to {
			break
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Next appends the next message to dst, as it was sent, and gives its flags.
// The error is io.EOF after the last message, [ErrTruncated], [ErrTooLarge] (with
// the flags: they may tell that there is no envelope), or what the source says. Memory grows with what comes, not with the length that
// the sender claims.
func (r *EnvelopeReader) Next(dst []byte) (flags byte, out []byte, err error) {
	if more, err := r.More(); !more {
		if err == nil {
			err = io.EOF
		}
		return 0, dst, err
	}
	waits := false
	wait := func() {
		if !waits && r.Waiting != nil {
			waits = true
			r.Waiting(true)
		}
	}
	for r.to-r.from < EnvelopeHeaderSize {
		wait()
		if err := r.fill(); err != nil && r.to-r.from < EnvelopeHeaderSize {
			return 0, dst, cutOff(err)
		}
	}
	flags = r.Stage[r.from]
	size := int64(binary.BigEndian.Uint32(r.Stage[r.from+1:]))
	if size > r.Limit {
		return flags, dst, fmt.Errorf("a message of %d bytes is %w of %d", size, ErrTooLarge, r.Limit)
	}
	r.from += EnvelopeHeaderSize
	ahead := min(int(size), r.to-r.from)
	out = append(dst, r.Stage[r.from:r.from+ahead]...)
	r.from += ahead
	for left := int(size) - ahead; left > 0; {
		wait()
		out = growFor(out, left)
		n, err := r.Source.Read(out[len(out):min(cap(out), len(out)+left)])
		out = out[:len(out)+n]
		if left -= n; err != nil && left > 0 {
			return 0, out[:len(dst)], cutOff(err)
		}
	}
	if waits {
		r.Waiting(false)
	}
	return flags, out, nil
}

// growFor makes room in b, which is full or not, for some of the bytes that are
// left to come.
func growFor(b []byte, left int) []byte {
	const step = 32 << 10
	if len(b) < cap(b) {
		return b
	}
	return slices.Grow(b, min(left, max(len(b), step)))
}

// fill reads once into the stage.
func (r *EnvelopeReader) fill() error {
	switch {
	case r.from == r.to:
		r.from, r.to = 0, 0
	case len(r.Stage)-r.from < EnvelopeHeaderSize:
		r.to = copy(r.Stage, r.Stage[r.from:r.to])
		r.from = 0
	}
	n, err := r.Source.Read(r.Stage[r.to:])
	r.to += n
	return err
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrTruncated
	}
	return err
}

package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

func envelope(flags byte, data string) string {
	var h [wire.EnvelopeHeaderSize]byte
	wire.PutEnvelopeHeader(&h, flags, len(data))
	return string(h[:]) + data
}

func TestEnvelopeHeader(t *testing.T) {
	t.Parallel()
	if got := envelope(wire.FlagTrailers, strings.Repeat("x", 258))[:5]; got != "\x80\x00\x00\x01\x02" {
		t.Errorf("%x", got)
	}
}

func TestEnvelopeReader(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large ", 10_000)
	body := envelope(0, "one") + envelope(1, "") + envelope(0, large) + envelope(2, "four")
	want := []string{"0one", "1", "0" + large, "2four"}
	for name, source := range map[string]io.Reader{
		"at once": strings.NewReader(body), "byte by byte": iotest.OneByteReader(strings.NewReader(body)),
		"with the end": iotest.DataErrReader(strings.NewReader(body)), "by halves": iotest.HalfReader(strings.NewReader(body)),
	} {
		for _, stage := range []int{wire.EnvelopeHeaderSize, 7, 512, 1 << 20} {
			waits := 0
			r := wire.EnvelopeReader{Source: source, Limit: int64(len(large)), Stage: make([]byte, stage), Waiting: func(on bool) {
				if waits++; on != (waits%2 == 1) {
					t.Error("waiting is not told in pairs")
				}
			}}
			if _, isSeeker := source.(io.Seeker); isSeeker {
				_, _ = source.(io.Seeker).Seek(0, io.SeekStart)
			} else if stage != wire.EnvelopeHeaderSize {
				continue // it was read already
			}
			var got []string
			for {
				flags, data, err := r.Next([]byte("before"))
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s, stage of %d: %v", name, stage, err)
				}
				got = append(got, string('0'+flags)+strings.TrimPrefix(string(data), "before"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, stage of %d: %d messages", name, stage, len(got))
			}
			if more, err := r.More(); more || err != nil {
				t.Errorf("%s: more after the end: %v, %v", name, more, err)
			}
			if waits%2 != 0 {
				t.Errorf("%s: still waiting", name)
			}
		}
	}
}

func TestEnvelopeFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		source io.Reader
		want   error
	}{
		"no body":                  {strings.NewReader(""), io.EOF},
		"a part of a header":       {strings.NewReader("\x00\x00\x00"), wire.ErrTruncated},
		"a part of a message":      {strings.NewReader("\x00\x00\x00\x00\x05four"), wire.ErrTruncated},
		"a header alone":           {strings.NewReader("\x00\x00\x00\x00\x05"), wire.ErrTruncated},
		"too large":                {strings.NewReader("\x00\x00\x00\x10\x01"), wire.ErrTooLarge},
		"the largest length":       {strings.NewReader("\x00\xff\xff\xff\xffmuch"), wire.ErrTooLarge},
		"broken before":            {iotest.ErrReader(broken), broken},
		"broken within":            {io.MultiReader(strings.NewReader("\x00\x00\x00\x00\x05fo"), iotest.ErrReader(broken)), broken},
		"broken within the header": {io.MultiReader(strings.NewReader("\x00\x00"), iotest.ErrReader(broken)), broken},
	} {
		r := wire.EnvelopeReader{Source: tc.source, Limit: 4096, Stage: make([]byte, 16)}
		if _, out, err := r.Next([]byte("before")); !errors.Is(err, tc.want) || string(out) != "before" {
			t.Errorf("%s: %q, %v, want %v", name, out, err, tc.want)
		}
	}
}

// A length that is only claimed takes no memory.
func TestEnvelopeClaims(t *testing.T) {
	t.Parallel()
	r := wire.EnvelopeReader{Source: strings.NewReader("\x00\x3f\xff\xff\xffvery little"), Limit: 1 << 30, Stage: make([]byte, 16)}
	if _, out, err := r.Next(nil); !errors.Is(err, wire.ErrTruncated) || cap(out) > 64<<10 {
		t.Errorf("%v, with a buffer of %d bytes", err, cap(out))
	}
}

// FuzzEnvelopes: whatever comes, the reader finds the same messages as one that
// has all bytes at hand, however they come.
func FuzzEnvelopes(f *testing.F) {
	f.Add([]byte(envelope(0, "one")+envelope(1, "two")), uint8(1))
	f.Add([]byte(envelope(0x80, "")), uint8(3))
	f.Add([]byte("\x00\x00\x00\x01\x00short"), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		const limit = 1 << 10
		r := wire.EnvelopeReader{
			Source: &stepReader{bytes.NewReader(body), int(step)%16 + 1}, Limit: limit, Stage: make([]byte, 5+int(step)/16),
		}
		rest := body
		for {
			flags, data, err := r.Next(nil)
			switch {
			case len(rest) == 0:
				if !errors.Is(err, io.EOF) || errors.Is(err, wire.ErrTruncated) {
					t.Fatalf("at the end: %v", err)
				}
				return
			case len(rest) >= 5 && binary.BigEndian.Uint32(rest[1:]) > limit:
				if !errors.Is(err, wire.ErrTooLarge) {
					t.Fatalf("too large: %v", err)
				}
				return
			case len(rest) < 5 || len(rest)-5 < int(binary.BigEndian.Uint32(rest[1:])):
				if !errors.Is(err, wire.ErrTruncated) {
					t.Fatalf("cut off: %v", err)
				}
				return
			}
			size := int(binary.BigEndian.Uint32(rest[1:]))
			if err != nil || flags != rest[0] || !bytes.Equal(data, rest[5:5+size]) {
				t.Fatalf("message: %d %q, %v; want %d %q", flags, data, err, rest[0], rest[5:5+size])
			}
			rest = rest[5+size:]
		}
	})
}

// stepReader gives at most step bytes at a time.
type stepReader struct {
	io.Reader
	step int
}

func (r *stepReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.step)]) }

package gateway

import (
	"errors"
	"io"
)

// Errors of a [jsonSplitter], besides those of its reader.
var (
	errMessageTooLarge = errors.New("a message is larger than the limit")
	errNotMessages     = errors.New("not a sequence of JSON values")
)

// minSplit is how much is read at once, at least, in bytes.
const minSplit = 4 << 10

// jsonSplitter finds the messages in a body:
//
//	body     = array / sequence
//	array    = "[" [ value *( "," value ) ] "]"
//	sequence = *value
//
// with white space anywhere between, and needed only between two values that are
// neither objects, arrays nor strings. A body whose first character is "[" is an
// array of messages.
//
// It does not parse values, but finds their ends: by quotes and brackets. What
// it takes for a value is one when the body is well-formed, and no JSON at all
// when it is not; whoever parses it finds out. Whatever comes, it holds one
// message at a time, and what was read beyond it.
type jsonSplitter struct {
	r     io.Reader
	limit int // of one message, in bytes

	buf  []byte // what was read and not given out; its start is at from
	from int
	at   int // how far it was looked at
	err  error

	state splitState
	// Inside a value.
	depth             int
	inString, escaped bool
	scalar            bool // neither an object, an array nor a string
}

type splitState uint8

const (
	splitStart     splitState = iota // nothing but space came yet
	splitSequence                    // between the values of a sequence
	splitFirst                       // after the bracket that opens an array
	splitElement                     // after a comma in it
	splitSeparator                   // after a value in it
	splitEnd                         // after the bracket that closes it
)

// next gives the next message, which is there until next is called again, and
// io.EOF after the last. An error stays.
func (s *jsonSplitter) next() ([]byte, error) {
	if s.err != nil && s.at == len(s.buf) && !s.inValue() {
		return nil, s.finish(s.err)
	}
	s.from = s.at
	for {
		found, err := s.scan()
		if err != nil {
			s.err, s.at = err, len(s.buf)
			return nil, err
		}
		if s.at-s.from > s.limit {
			s.err = errMessageTooLarge
			s.abandon()
			return nil, s.err
		}
		if found {
			return s.buf[s.from:s.at], nil
		}
		if s.err != nil {
			return s.last()
		}
		s.fill()
	}
}

// inside tells whether a message, or an array that awaits nothing but its
// body's end, has begun and not ended.
func (s *jsonSplitter) inside() bool { return s.inValue() || s.state == splitEnd }

func (s *jsonSplitter) inValue() bool { return s.depth > 0 || s.inString || s.scalar }

func (s *jsonSplitter) abandon() {
	s.depth, s.inString, s.scalar, s.at = 0, false, false, len(s.buf)
}

// last is for what was not ended when the reader had no more.
func (s *jsonSplitter) last() ([]byte, error) {
	if s.scalar && errors.Is(s.err, io.EOF) && s.state == splitSequence { // the end ends it
		s.scalar = false
		return s.buf[s.from:s.at], nil
	}
	cut := s.inValue()
	s.abandon()
	if cut && errors.Is(s.err, io.EOF) {
		s.err = io.ErrUnexpectedEOF
	}
	return nil, s.finish(s.err)
}

// finish is the error at the end of what could be read.
func (s *jsonSplitter) finish(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	switch s.state {
	case splitFirst, splitElement, splitSeparator:
		s.err = io.ErrUnexpectedEOF
	}
	return s.err
}

// fill reads more, behind what is not given out yet.
func (s *jsonSplitter) fill() {
	if s.from > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.from:])]
		s.at -= s.from
		s.from = 0
	}
	if cap(s.buf)-len(s.buf) < minSplit/2 {
		grown := make([]byte, len(s.buf), max(2*cap(s.buf), minSplit))
		copy(grown, s.buf)
		s.buf = grown
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if err != nil {
		s.err = err
	}
}

// shrink lets go of a buffer that one large message made large, once that is
// given out and no longer needed.
func (s *jsonSplitter) shrink() {
	if cap(s.buf) > maxAhead && len(s.buf)-s.at < minSplit {
		rest := append(make([]byte, 0, minSplit), s.buf[s.at:]...)
		s.buf, s.from, s.at = rest, 0, 0
	}
}

// scan looks on, up to the end of a value or of what was read.
func (s *jsonSplitter) scan() (found bool, err error) {
	if s.inValue() {
		return s.scanValue(), nil
	}
	for ; s.at < len(s.buf); s.at++ {
		c := s.buf[s.at]
		if isSpace(c) {
			s.from = s.at + 1
			continue
		}
		begins, err := s.between(c)
		if err != nil {
			return false, err
		}
		if begins {
			s.from = s.at
			s.begin(c)
			return s.scanValue(), nil
		}
		s.from = s.at + 1
	}
	return false, nil
}

// between takes a character between two values; begins: it is the first one of a
// value.
func (s *jsonSplitter) between(c byte) (begins bool, err error) {
	switch s.state {
	case splitStart:
		if s.state = splitSequence; c == '[' {
			s.state = splitFirst
			return false, nil
		}
	case splitFirst:
		if c == ']' {
			s.state = splitEnd
			return false, nil
		}
	case splitSeparator:
		switch c {
		case ',':
			s.state = splitElement
			return false, nil
		case ']':
			s.state = splitEnd
			return false, nil
		}
		return false, errNotMessages
	case splitEnd:
		return false, errNotMessages
	case splitSequence, splitElement:
	}
	switch c {
	case ',', ':', ']', '}':
		return false, errNotMessages
	}
	return true, nil
}

func (s *jsonSplitter) begin(c byte) {
	s.at++
	switch c {
	case '{', '[':
		s.depth = 1
	case '"':
		s.inString = true
	default:
		s.scalar = true
	}
}

// scanValue looks for the end of the value that has begun.
func (s *jsonSplitter) scanValue() (found bool) {
	for s.at < len(s.buf) {
		if s.scalar {
			return s.scanScalar()
		}
		if s.inString {
			if !s.scanString() {
				return false
			}
			if s.depth == 0 {
				return s.end()
			}
		}
		for ; s.at < len(s.buf) && !s.inString; s.at++ {
			switch s.buf[s.at] {
			case '"':
				s.inString = true
			case '{', '[':
				s.depth++
			case '}', ']':
				if s.depth--; s.depth == 0 {
					s.at++
					return s.end()
				}
			}
		}
	}
	return false
}

func (s *jsonSplitter) end() bool {
	if s.state != splitSequence {
		s.state = splitSeparator
	}
	return true
}

// scanString looks for the quote that ends a string.
func (s *jsonSplitter) scanString() (ended bool) {
	for s.at < len(s.buf) {
		c := s.buf[s.at]
		s.at++
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
			return true
		}
	}
	return false
}

// scanScalar looks for what ends a number or a literal.
func (s *jsonSplitter) scanScalar() bool {
	for ; s.at < len(s.buf); s.at++ {
		switch c := s.buf[s.at]; {
		case isSpace(c), c == ',', c == ':', c == '[', c == ']', c == '{', c == '}', c == '"':
			s.scalar = false
			return s.end()
		}
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

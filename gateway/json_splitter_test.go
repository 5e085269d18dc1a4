package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// split gives all messages of a body that is read in pieces of size bytes, and
// the error that ended it but io.EOF.
func split(body []byte, limit, size int) ([]string, error) {
	var r io.Reader = bytes.NewReader(body)
	if size > 0 {
		r = &pieces{r, size}
	}
	s := jsonSplitter{r: r, limit: limit}
	var out []string
	for {
		m, err := s.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, string(m))
		s.shrink()
	}
}

type pieces struct {
	r    io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(p.size, len(b))]) }

func TestSplitter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		want       []string
		err        error
	}{
		{"nothing", "", nil, nil},
		{"space", " \r\n\t", nil, nil},
		{"lines", "{\"a\":1}\n{\"b\":[2,3]}\n", []string{`{"a":1}`, `{"b":[2,3]}`}, nil},
		{"no last line feed", "{}\n{}", []string{"{}", "{}"}, nil},
		{"joined", `{}{}"a""b"{}`, []string{"{}", "{}", `"a"`, `"b"`, "{}"}, nil},
		{"across lines", "{\n\"a\"\n:\n1}\n\n{}", []string{"{\n\"a\"\n:\n1}", "{}"}, nil},
		{"array", ` [ {} , {"a":[]} ] `, []string{"{}", `{"a":[]}`}, nil},
		{"empty array", `[ ]`, nil, nil},
		{"array of scalars", `[1,"a",true,null,[2]]`, []string{"1", `"a"`, "true", "null", "[2]"}, nil},
		{"scalars", "1 2\ntrue null", []string{"1", "2", "true", "null"}, nil},
		{"brackets in strings", `{"a":"]}\"\\"}{"b":"\\\""}`, []string{`{"a":"]}\"\\"}`, `{"b":"\\\""}`}, nil},
		{"a later list", `{}[1,2]`, []string{"{}", "[1,2]"}, nil},

		{"cut off in an object", `{}{"a":`, []string{"{}"}, io.ErrUnexpectedEOF},
		{"cut off in a string", `"a`, nil, io.ErrUnexpectedEOF},
		{"cut off after an escape", `"a\`, nil, io.ErrUnexpectedEOF},
		{"cut off in an array", `[{},`, []string{"{}"}, io.ErrUnexpectedEOF},
		{"array not closed", `[{}`, []string{"{}"}, io.ErrUnexpectedEOF},
		{"array not begun", `[`, nil, io.ErrUnexpectedEOF},
		{"scalar in an array cut off", `[1`, nil, io.ErrUnexpectedEOF},
		{"comma between lines", `{},{}`, []string{"{}"}, errNotMessages},
		{"comma at the end", `[{},]`, []string{"{}"}, errNotMessages},
		{"comma first", `[,{}]`, nil, errNotMessages},
		{"no comma", `[{}{}]`, []string{"{}"}, errNotMessages},
		{"more after the array", `[{}] {}`, []string{"{}"}, errNotMessages},
		{"closed twice", `[]]`, nil, errNotMessages},
		{"closed only", `}`, nil, errNotMessages},
		{"too large", `{"a":"` + strings.Repeat("x", 100) + `"}`, nil, errMessageTooLarge},
		{"too large later", `{}` + strings.Repeat("1", 101), []string{"{}"}, errMessageTooLarge},
		{"as large as allowed", `"` + strings.Repeat("x", 98) + `"`, []string{`"` + strings.Repeat("x", 98) + `"`}, nil},
		{"much space", strings.Repeat(" ", 10000) + "{}" + strings.Repeat("\n", 10000), []string{"{}"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{0, 1, 3} {
				got, err := split([]byte(tc.body), 100, size)
				if !slices.Equal(got, tc.want) || !errors.Is(err, tc.err) || tc.err == nil && err != nil {
					t.Errorf("in pieces of %d: %q, %v; want %q, %v", size, got, err, tc.want, tc.err)
				}
			}
		})
	}
}

// A message comes out as soon as its last byte is there, and not with the next.
func TestSplitterDoesNotWait(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer r.Close()
	s := jsonSplitter{r: r, limit: 100}
	go func() {
		for range 3 {
			_, _ = w.Write([]byte(`{"a":"b"}`))
		}
	}()
	for range 3 {
		if got, err := s.next(); err != nil || string(got) != `{"a":"b"}` {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if s.inside() {
		t.Error("between messages it is inside one")
	}
}

// An error of the reader comes out after what was whole before it, and stays.
func TestSplitterReaderFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := jsonSplitter{r: io.MultiReader(strings.NewReader(`{} {"a`), iotest.ErrReader(broken)), limit: 100}
	if got, err := s.next(); err != nil || string(got) != "{}" {
		t.Fatalf("%q, %v", got, err)
	}
	for range 3 {
		if _, err := s.next(); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
}

// What is held is bounded by the limit for one message, and let go of after a
// large one.
func TestSplitterMemory(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	s := jsonSplitter{r: io.MultiReader(
		strings.NewReader(`{"a":"`+strings.Repeat("x", limit-10)+`"}{}`),
		strings.NewReader(`{"a":"`+strings.Repeat("x", 10*limit))), limit: limit}
	if got, err := s.next(); err != nil || len(got) != limit-2 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	s.shrink()
	if c := cap(s.buf); c > maxAhead {
		t.Errorf("%d bytes are held after a large message", c)
	}
	if got, err := s.next(); err != nil || string(got) != "{}" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := s.next(); !errors.Is(err, errMessageTooLarge) {
		t.Fatal(err)
	}
	if c := cap(s.buf); c > 4*limit {
		t.Errorf("%d bytes were held for a message that is refused", c)
	}
}

// FuzzSplitter: encoding/json's Decoder is the oracle. What is split into valid
// values is what the decoder finds; and what the decoder finds is split, but for
// scalars that touch, which only the decoder takes apart.
func FuzzSplitter(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "{}\n{}", `[{"a":1},{"b":"]"}]`, `{"a":"\\\""}[1]`, "1 2", `"a""b"`, "[1,2", "[1,]", "truefalse", "1-2", `{}x{}`, "[[1],[2]] ", "\ufeff{}", `{]`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		got, err := split(body, 1<<20, size%64)
		again, againErr := split(body, 1<<20, 0)
		if !slices.Equal(got, again) || (err == nil) != (againErr == nil) {
			t.Fatalf("in pieces of %d %q, %v; whole %q, %v", size%64, got, err, again, againErr)
		}
		valid := err == nil
		for _, m := range got {
			valid = valid && json.Valid([]byte(m))
		}
		want, touching, oracleErr := decodeAll(body)
		switch {
		case valid && oracleErr != nil:
			t.Fatalf("split into %q; the decoder says %v", got, oracleErr)
		case valid && !slices.Equal(got, want):
			t.Fatalf("split into %q; the decoder finds %q", got, want)
		case !valid && oracleErr == nil && !touching:
			t.Fatalf("%q, %v; the decoder finds %q", got, err, want)
		}
	})
}

// decodeAll is the oracle. touching: two scalars touch, or one is touched by a
// comma or bracket, at the top.
func decodeAll(body []byte) (values []string, touching bool, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	array := false
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		array = true
		if _, err := d.Token(); err != nil {
			return nil, false, err
		}
	}
	end := int64(-1)
	scalar := false
	for !array || d.More() {
		var v json.RawMessage
		err := d.Decode(&v)
		if !array && errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return values, touching, nil
		}
		if err != nil {
			return values, touching, err
		}
		isScalar := !strings.ContainsRune(`{["`, rune(v[0]))
		start := d.InputOffset() - int64(len(v))
		touching = touching || !array && isScalar && scalar && start == end
		values, end, scalar = append(values, string(v)), d.InputOffset(), isScalar
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return values, touching, err
	}
	if rest := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return values, touching, errNotMessages
	}
	return values, touching, nil
}

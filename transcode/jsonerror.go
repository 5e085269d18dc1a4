package transcode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// jsonError makes an *Error of what protojson (or encoding/json) said about a
// body. protojson names the field but not its path, quotes the value, and
// gives the position in text only; so the position is read back, and the path
// found by it. at is the path of the body itself, shift what was put before it.
func jsonError(body []byte, shift int, at string, err error) *Error {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	reason := jsonReason(text)
	offset, ok := jsonOffset(body, shift, err, text)
	if !ok {
		if at == "" {
			reason = "request body: " + reason
		}
		return &Error{Field: at, Reason: reason, cause: err}
	}
	line, column := position(body, offset)
	field := fieldName(joinPath(at, jsonPath(body, offset)))
	if field == "" {
		reason = "request body: " + reason
	}
	return &Error{Field: field, Reason: fmt.Sprintf("%s (line %d, column %d)", reason, line, column), cause: err}
}

func joinPath(at, path string) string {
	switch {
	case at == "":
		return path
	case path == "" || path[0] == '[':
		return at + path
	default:
		return at + "." + path
	}
}

// jsonReasons are the faults that protojson tells apart. Anchored: further on,
// its text quotes the caller's.
var jsonReasons = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^unknown field `), "no such field"},
	{regexp.MustCompile(`^duplicate (field|map key|"@type" field|"value" field)`), "given more than once"},
	{regexp.MustCompile(`^invalid value for (\w+) (?:field|key)`), "not a valid $1"},
	{regexp.MustCompile(`^error parsing .*oneof [\w.]*?(\w+) is already set$`), "another member of oneof $1 is set already"},
	{regexp.MustCompile(`^invalid (google\.protobuf\.\w+)(?: value|:)`), "not a valid $1"},
	{regexp.MustCompile(`^(google\.protobuf\.\w+) value out of range`), "out of range for $1"},
	{regexp.MustCompile(`^google\.protobuf\.FieldMask\.paths contains invalid path`), "not a valid google.protobuf.FieldMask"},
	{regexp.MustCompile(`^unable to resolve "`), "the type is not known"},
	{regexp.MustCompile(`^missing "(@type|value)" field`), `"$1" is missing`},
	{regexp.MustCompile(`^@type field`), `"@type" is not the URL of a type`},
	{regexp.MustCompile(`^message .* cannot be extended by`), "not an extension of this message"},
	{regexp.MustCompile(`^exceeded max recursion depth`), "nested too deeply"},
	{regexp.MustCompile(`^invalid UTF-8`), "not valid UTF-8"},
	{regexp.MustCompile(`^invalid escape code`), "malformed escape in a string"},
	{regexp.MustCompile(`^invalid character .* in string`), "control character in a string"},
	{regexp.MustCompile(`^unexpected (EOF|end of JSON)`), "the JSON ends too early"},
	{regexp.MustCompile(`^unexpected character .*missing ":"`), `malformed JSON: missing ":" after a name`},
	{regexp.MustCompile(`^unexpected token \{`), "unexpected object"},
	{regexp.MustCompile(`^unexpected token \[`), "unexpected array"},
	{regexp.MustCompile(`^unexpected token "`), "unexpected string"},
	{regexp.MustCompile(`^unexpected token [-0-9]`), "unexpected number"},
	{regexp.MustCompile(`^unexpected token (null|true|false|[\]},])`), "unexpected $1"},
}

// jsonReason says what is wrong in words of our own, without quoting values.
func jsonReason(text string) string {
	text = errorHead.ReplaceAllString(text, "")
	for _, r := range jsonReasons {
		if m := r.pattern.FindStringSubmatchIndex(text); m != nil {
			return string(r.pattern.ExpandString(nil, r.reason, text, m))
		}
	}
	return "malformed JSON"
}

var (
	errorHead     = regexp.MustCompile(`^(?:proto: *)?(?:syntax error *)?(?:\(line \d+:\d+\): *)?`)
	errorPosition = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
)

// jsonOffset finds the byte of the body that an error is about.
func jsonOffset(body []byte, shift int, err error, text string) (int, bool) {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return min(max(int(syntax.Offset)-1, 0), len(body)), true
	}
	var line, column int
	m := errorPosition.FindString(text)
	if n, _ := fmt.Sscanf(m, "(line %d:%d)", &line, &column); n != 2 {
		return 0, false
	}
	offset := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(body[offset:], '\n')
		if i < 0 {
			return len(body), true
		}
		offset += i + 1
		shift = 0
	}
	for column -= shift; column > 1 && offset < len(body); column-- {
		_, n := utf8.DecodeRune(body[offset:])
		offset += n
	}
	return offset, true
}

// position is the line and column, in characters, of an offset.
func position(body []byte, offset int) (line, column int) {
	head := body[:offset]
	line = bytes.Count(head, []byte("\n")) + 1
	return line, utf8.RuneCount(head[bytes.LastIndexByte(head, '\n')+1:]) + 1
}

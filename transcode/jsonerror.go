package transcode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
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
		return &Error{Field: at, Reason: reason, Offset: -1, cause: err}
	}
	line, column := position(body, offset)
	field := fieldName(joinPath(at, jsonPath(body, offset)))
	if field == "" {
		reason = "request body: " + reason
	}
	return &Error{Field: field, Reason: fmt.Sprintf("%s (line %d, column %d)", reason, line, column), Offset: offset, cause: err}
}

// syntaxError says where a body stops being JSON.
func syntaxError(body []byte, at string) *Error {
	// It checks all of the body before it builds anything.
	return jsonError(body, 0, at, json.Unmarshal(body, new(any)))
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

// jsonFault is a fault that protojson tells apart, and our words for it.
type jsonFault struct {
	pattern *regexp.Regexp
	reason  string
}

// jsonPatterns are what the texts of errors are read with.
type jsonPatterns struct {
	head, position *regexp.Regexp
	faults         []jsonFault
}

// patterns are compiled when the first bad body comes: most programs that link
// this package in, as the command's other subcommands do, never see one.
var patterns = sync.OnceValue(func() *jsonPatterns {
	fault := func(pattern, reason string) jsonFault { return jsonFault{regexp.MustCompile(pattern), reason} }
	return &jsonPatterns{
		head:     regexp.MustCompile(`^(?:proto: *)?(?:syntax error *)?(?:\(line \d+:\d+\): *)?`),
		position: regexp.MustCompile(`\(line (\d+):(\d+)\)`),
		// Anchored: further on, the text quotes the caller's.
		faults: []jsonFault{
			fault(`^unknown field `, "no such field"),
			fault(`^duplicate (field|map key|"@type" field|"value" field)`, "given more than once"),
			fault(`^invalid value for (\w+) (?:field|key)`, "not a valid $1"),
			fault(`^error parsing .*oneof [\w.]*?(\w+) is already set$`, "another member of oneof $1 is set already"),
			fault(`^invalid (google\.protobuf\.\w+)(?: value|:)`, "not a valid $1"),
			fault(`^(google\.protobuf\.\w+) value out of range`, "out of range for $1"),
			fault(`^google\.protobuf\.FieldMask\.paths contains invalid path`, "not a valid google.protobuf.FieldMask"),
			fault(`^unable to resolve "`, "the type is not known"),
			fault(`^missing "(@type|value)" field`, `"$1" is missing`),
			fault(`^@type field`, `"@type" is not the URL of a type`),
			fault(`^message .* cannot be extended by`, "not an extension of this message"),
			fault(`^exceeded max (recursion )?depth`, "nested too deeply"),
			fault(`^invalid UTF-8`, "not valid UTF-8"),
			fault(`^invalid escape code`, "malformed escape in a string"),
			fault(`^invalid character .* in (string escape code|\\u hexadecimal)`, "malformed escape in a string"),
			fault(`^invalid character '\{' after top-level value`, "unexpected object"),
			fault(`^invalid character .* in string`, "control character in a string"),
			fault(`^unexpected (EOF|end of JSON)`, "the JSON ends too early"),
			fault(`^unexpected character .*missing ":"`, `malformed JSON: missing ":" after a name`),
			fault(`^unexpected token \{`, "unexpected object"),
			fault(`^unexpected token \[`, "unexpected array"),
			fault(`^unexpected token "`, "unexpected string"),
			fault(`^unexpected token [-0-9]`, "unexpected number"),
			fault(`^unexpected token (null|true|false|[\]},])`, "unexpected $1"),
		},
	}
})

// jsonReason says what is wrong in words of our own, without quoting values.
func jsonReason(text string) string {
	text = patterns().head.ReplaceAllString(text, "")
	for _, f := range patterns().faults {
		if m := f.pattern.FindStringSubmatchIndex(text); m != nil {
			return string(f.pattern.ExpandString(nil, f.reason, text, m))
		}
	}
	return "malformed JSON"
}

// jsonOffset finds the byte of the body that an error is about.
func jsonOffset(body []byte, shift int, err error, text string) (int, bool) {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return min(max(int(syntax.Offset)-1, 0), len(body)), true
	}
	var line, column int
	m := patterns().position.FindString(text)
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

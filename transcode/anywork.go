package transcode

import (
	"bytes"
	"errors"
)

// maxAnyWork bounds how often a body's bytes may lie inside an Any, on
// average.
const maxAnyWork = 4

// errAnyWork reads like protojson's own, for jsonError.
var errAnyWork = errors.New("exceeded max recursion depth of Any")

// checkAnyWork refuses JSON with Any inside Any inside Any. protojson looks
// through the whole of each for its "@type" before it reads it, so that 4 MiB
// nested 95 deep take a minute. What it would look through is measured: the
// sizes of all objects with a member "@type". Malformed JSON does
// not come this far.
func checkAnyWork(body []byte) error {
	// A name may be written with escapes.
	if !bytes.Contains(body, []byte("@type")) && !bytes.Contains(body, []byte(`\u`)) {
		return nil
	}
	type object struct {
		start int
		isAny bool
	}
	var open []object
	work := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			// Lists and maps of messages double what protojson counts.
			if len(open) > 4*maxDepth {
				return errAnyWork
			}
			open = append(open, object{start: i})
		case '}', ']':
			if len(open) == 0 {
				return nil
			}
			if last := open[len(open)-1]; last.isAny {
				if work += i - last.start; work > maxAnyWork*len(body) {
					return errAnyWork
				}
			}
			open = open[:len(open)-1]
		case '"':
			end := stringEnd(body, i)
			s := body[i:end]
			if len(open) > 0 && (string(s) == `"@type"` || bytes.IndexByte(s, '\\') >= 0) && isName(body[end:]) {
				open[len(open)-1].isAny = true
			}
			i = end - 1
		}
	}
	return nil
}

// isName tells whether the string before rest is a member's name.
func isName(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

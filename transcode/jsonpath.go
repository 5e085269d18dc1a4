package transcode

import (
	"encoding/json"
	"strconv"
	"strings"
)

// jsonPath is the path of what stands at an offset of some JSON, or of what it
// stands in: "items[2].price". The JSON may be malformed from there on.
func jsonPath(body []byte, offset int) string {
	var stack []level
	for i := 0; i < len(body) && i <= offset; i++ {
		switch c := body[i]; c {
		case '{':
			if i == offset {
				return pathOf(stack)
			}
			stack = push(stack, level{object: true, expectName: true})
			continue
		case '[':
			if i == offset {
				return pathOf(stack)
			}
			stack = push(stack, level{})
			continue
		case '}', ']':
			if len(stack) == 0 {
				return ""
			}
			if i == offset {
				if top := stack[len(stack)-1]; top.object == (c == '}') && !top.expectValue {
					stack = stack[:len(stack)-1]
				}
				return pathOf(stack)
			}
			stack = stack[:len(stack)-1]
		case ':':
			if len(stack) > 0 {
				stack[len(stack)-1].expectValue = true
			}
			continue
		case ' ', '\t', '\r', '\n':
			continue
		case ',':
			if len(stack) == 0 {
				return ""
			}
			if i == offset {
				return pathOf(stack)
			}
			top := &stack[len(stack)-1]
			if top.object {
				top.expectName, top.name = true, nil
			} else {
				top.index++
			}
		case '"':
			end := stringEnd(body, i)
			if len(stack) > 0 && stack[len(stack)-1].expectName {
				top := &stack[len(stack)-1]
				top.name, top.expectName = body[i:end], false
			}
			i = end - 1
		}
		if len(stack) > 0 {
			stack[len(stack)-1].expectValue = false
		}
	}
	return pathOf(stack)
}

// push goes into an object or array, which is the value that was expected.
func push(stack []level, l level) []level {
	if len(stack) > 0 {
		stack[len(stack)-1].expectValue = false
	}
	return append(stack, l)
}

// level is an object or array that is open.
type level struct {
	object      bool
	expectName  bool
	expectValue bool   // the name and its colon were read
	name        []byte // in quotes
	index       int
}

func pathOf(stack []level) string {
	var b strings.Builder
	for _, l := range stack {
		if !l.object {
			b.WriteString("[" + strconv.Itoa(l.index) + "]")
		} else if name := unquote(l.name); name != "" {
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(name)
		}
	}
	return b.String()
}

// stringEnd is where the string that begins at i ends, after its quote.
func stringEnd(body []byte, i int) int {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(body)
}

func unquote(b []byte) string {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return strings.Trim(string(b), `"`)
	}
	return s
}

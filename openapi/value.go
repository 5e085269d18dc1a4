package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// An object is a JSON object whose members keep their order. Values are
// strings, bools, ints, objects, arrays and references.
type object []member

type member struct {
	key   string
	value any
}

type array []any

// set adds a member.
func (o *object) set(key string, value any) { *o = append(*o, member{key, value}) }

// setText adds a member unless it would be empty.
func (o *object) setText(key, value string) {
	if value != "" {
		o.set(key, value)
	}
}

// setArray adds a member unless it would be empty.
func (o *object) setArray(key string, value array) {
	if len(value) > 0 {
		o.set(key, value)
	}
}

// setTrue adds a member that is true, if value is.
func (o *object) setTrue(key string, value bool) {
	if value {
		o.set(key, true)
	}
}

// index finds a member; -1: there is none.
func (o object) index(key string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.key == key })
}

// get gives a member's value; nil: there is none.
func (o object) get(key string) any {
	if i := o.index(key); i >= 0 {
		return o[i].value
	}
	return nil
}

func texts(values ...string) array {
	a := make(array, len(values))
	for i, v := range values {
		a[i] = v
	}
	return a
}

func appendJSON(dst []byte, value any) []byte {
	switch v := value.(type) {
	case object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, m.key)
			dst = append(dst, ':')
			dst = appendJSON(dst, m.value)
		}
		return append(dst, '}')
	case array:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case *component:
		return appendString(dst, v.reference())
	default:
		panic(fmt.Sprintf("openapi: a %T in a document", value))
	}
}

func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // descriptions are for reading
	_ = enc.Encode(s)        // a string has no way to fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// yamlNode makes the same value for YAML.
func yamlNode(value any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case object:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, m := range v {
			n.Content = append(n.Content, scalar("!!str", m.key), yamlNode(m.value))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case array:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, e := range v {
			n.Content = append(n.Content, yamlNode(e))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case string:
		return scalar("!!str", v)
	case bool:
		return scalar("!!bool", strconv.FormatBool(v))
	case int:
		return scalar("!!int", strconv.Itoa(v))
	case *component:
		return scalar("!!str", v.reference())
	default:
		panic(fmt.Sprintf("openapi: a %T in a document", value))
	}
}

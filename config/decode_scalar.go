package config

import (
	"errors"
	"reflect"

	"go.yaml.in/yaml/v3"
)

func (d *decoder) decodeScalar(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fault(n, path, "is %s, but %s is wanted", describe(n), wanted(v.Type()))
		return
	}
	if n.ShortTag() == "!!null" {
		d.fault(n, path, `has no value; leave the key out for its default, or write "" for an empty text`)
		return
	}
	text, err := expand(n.Value, d.lookup)
	if err != nil {
		d.fault(n, path, "%v", err)
		return
	}
	shown := ""
	if hasReference(n.Value) {
		// What the variable holds decides the type: the file's own text is always a text.
		shown = n.Value
		d.source.marks[path] = mark{line: n.Line, column: n.Column, shown: shown}
	} else if why := mismatch(v.Type(), n); why != "" {
		d.fault(n, path, "%s", why)
		return
	}
	value, err := parseScalar(v.Type(), text)
	if err == nil {
		v.Set(value)
		return
	}
	reason := err.Error()
	if e := (*valueError)(nil); errors.As(err, &e) && shown != "" {
		reason = e.reason // the hint may repeat the value
	}
	if v.Type() == secretType {
		d.fault(n, path, "%s", reason)
		return
	}
	d.fault(n, path, "%s %s", quote(n.Value), reason)
}

// mismatch says why YAML's own type of a value does not fit; empty where it does.
func mismatch(t reflect.Type, n *yaml.Node) string {
	tag := n.ShortTag()
	number := tag == "!!int" || tag == "!!float"
	text := tag == "!!str" || tag == "!!timestamp"
	switch {
	case t == durationType || t == sizeType:
		if number || text {
			return ""
		}
	case t.Kind() == reflect.String:
		if text {
			return ""
		}
		if number || tag == "!!bool" {
			return "is " + describe(n) + ", but text is wanted; put it in quotes"
		}
	case t.Kind() == reflect.Bool:
		if tag == "!!bool" {
			return ""
		}
		return "is not true or false; write one of them, without quotes"
	default:
		if number {
			return ""
		}
		return "is not a number; write one without quotes"
	}
	return "is not " + wanted(t)
}

// wanted names what a scalar type's values are.
func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration like 2s"
	case t == sizeType:
		return "a size like 4MiB"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return "a number"
	}
}

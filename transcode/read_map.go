package transcode

import (
	"bytes"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keySpan is a map key's encoded value in the output, a string's without its
// length, or else in what was dropped; and where the key is in the input.
type keySpan struct {
	start, end, at int
	dropped        bool
}

// entries reads an object and appends a map field.
func (r *reader) entries(f *fieldPlan, depth int) bool {
	if !r.open('{') {
		return false
	}
	if r.empty('}') {
		return true
	}
	base := len(r.keys)
	for {
		k := keySpan{at: r.pos}
		if r.next() != '"' {
			return r.unexpected()
		}
		start := len(r.out)
		r.out = appendTag(r.out, f.tag)
		o := r.begin()
		r.out = appendTag(r.out, f.mapKey.tag)
		k.start = len(r.out)
		if !r.mapKey(f.mapKey.kind) {
			return false
		}
		k.end = len(r.out)
		if f.mapKey.kind == protoreflect.StringKind {
			for r.out[k.start] >= 1<<7 {
				k.start++
			}
			k.start++
		}
		if !r.colon() {
			return false
		}
		r.out = appendTag(r.out, f.mapValue.tag)
		if !r.value(f.mapValue, depth) {
			return false
		}
		if r.skipped {
			r.skipped = false
			r.dropped = append(r.dropped, r.out[k.start:k.end]...)
			k.start, k.end, k.dropped = len(r.dropped)-(k.end-k.start), len(r.dropped), true
			r.out = r.out[:start]
		} else {
			before := len(r.out)
			r.close(o)
			k.start += len(r.out) - before
			k.end += len(r.out) - before
		}
		r.keys = append(r.keys, k)
		if more, ok := r.more('}'); !more {
			ok = ok && r.distinct(r.keys[base:])
			r.keys = r.keys[:base]
			return ok
		}
	}
}

func (r *reader) key(k keySpan) []byte {
	if k.dropped {
		return r.dropped[k.start:k.end]
	}
	return r.out[k.start:k.end]
}

// distinct refuses a key that comes twice. A key has one encoding only. Most
// callers write their maps in order, or few keys.
func (r *reader) distinct(keys []keySpan) bool {
	const few = 12
	if len(keys) <= few {
		for i, k := range keys {
			for _, other := range keys[:i] {
				if bytes.Equal(r.key(k), r.key(other)) {
					return r.fail(k.at, moreThanOnce)
				}
			}
		}
		return true
	}
	compare := func(a, b keySpan) int { return bytes.Compare(r.key(a), r.key(b)) }
	if !slices.IsSortedFunc(keys, compare) {
		slices.SortFunc(keys, compare)
	}
	for i, k := range keys[1:] {
		if compare(keys[i], k) == 0 {
			return r.fail(max(keys[i].at, k.at), moreThanOnce)
		}
	}
	return true
}

// mapKey reads a name and appends it as a map key.
func (r *reader) mapKey(k protoreflect.Kind) bool {
	if k == protoreflect.StringKind {
		return r.str()
	}
	at := r.pos
	text, ok := r.string()
	if !ok {
		return false
	}
	switch k {
	case protoreflect.BoolKind:
		switch string(text) {
		case "true":
			r.out = append(r.out, 1)
			return true
		case "false":
			r.out = append(r.out, 0)
			return true
		}
		return r.invalid(at, k.String())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, err := strconv.ParseUint(string(text), 10, bitSize(k))
		r.out = appendUint(r.out, k, v)
		return err == nil || r.invalid(at, k.String())
	default:
		v, err := strconv.ParseInt(string(text), 10, bitSize(k))
		r.out = appendInt(r.out, k, v)
		return err == nil || r.invalid(at, k.String())
	}
}

// structValue reads an object or array and appends it as a member of a
// google.protobuf.Value: its tag, and the Struct or ListValue.
func (r *reader) structValue(tag uint64, mp *messagePlan, depth int) bool {
	r.out = protowire.AppendVarint(r.out, tag)
	o := r.begin()
	ok := false
	if mp.special == isStruct {
		ok = r.entries(mp.fields[0], depth)
	} else {
		ok = r.list(mp.fields[0], depth)
	}
	if ok {
		r.close(o)
	}
	return ok
}

package transcode

import "google.golang.org/protobuf/encoding/protowire"

// typeName is the member of an Any that says its type.
const typeName = "@type"

// An Any's type may stand at its end, so that all of it is to be looked
// through before it can be read, and all of one inside again: how many bytes
// may be looked through so is bounded by maxSearch times the body's size, or
// minSearch where that is more.
const (
	maxSearch = 4
	minSearch = 1 << 20
)

// any reads a google.protobuf.Any and appends its content.
func (r *reader) any(depth int) bool {
	start := r.pos
	if !r.open('{') {
		return false
	}
	if r.empty('}') {
		return true
	}
	mark := len(r.out)
	typeAt, ok := r.findType(depth)
	if !ok {
		return false
	}
	if typeAt < 0 {
		// Every member is unknown.
		return r.engine.discardUnknown || r.fail(start, `"@type" is missing`)
	}
	// The name and its colon were read, the string is next.
	urlAt := r.pos
	if r.next() != '"' {
		return r.fail(urlAt, `"@type" is not the URL of a type`)
	}
	url, ok := r.string()
	if !ok {
		return false
	}
	if len(url) == 0 {
		return r.fail(urlAt, `"@type" is not the URL of a type`)
	}
	const urlTag, valueTag = 1<<3 | 2, 2<<3 | 2
	r.out = protowire.AppendBytes(append(r.out, urlTag), url)
	mp, err := r.engine.lookup.messageByURL(url)
	if err != nil {
		r.out = r.out[:mark]
		return r.fail(urlAt, "the type is not known")
	}
	r.out = append(r.out, valueTag)
	o := r.begin()
	mark = len(r.out)
	r.pos = start
	if mp.special == ordinary {
		if depth == maxDepth {
			return r.fail(start, tooDeep)
		}
		ok = r.message(mp, depth+1, typeAt)
	} else {
		ok = r.anyValue(mp, depth, typeAt)
	}
	switch {
	case !ok:
		return false
	case len(r.out) == mark:
		r.out = r.out[:mark-2]
	default:
		r.close(o)
	}
	return true
}

// findType reads an Any's members up to the value of "@type", and tells where
// that name is; -1: all members were read, and it is not among them.
func (r *reader) findType(depth int) (at int, ok bool) {
	start := r.pos
	for {
		at = r.pos
		name, ok := r.name()
		if !ok {
			return -1, false
		}
		if string(name) == typeName {
			r.searched += at - start
			if r.searched > max(maxSearch*len(r.in), minSearch) {
				return -1, r.fail(start, "too much Any inside Any")
			}
			return at, true
		}
		if !r.skip(maxDepth - depth) {
			return -1, false
		}
		if more, ok := r.more('}'); !more {
			return -1, ok
		}
	}
}

// againType refuses a second "@type".
func (r *reader) againType(at, typeAt int) bool {
	return at == typeAt || r.fail(at, moreThanOnce)
}

// anyValue reads an Any of a type that has a JSON form of its own, which is in
// the member "value".
func (r *reader) anyValue(mp *messagePlan, depth, typeAt int) bool {
	r.open('{')
	found := false
	for {
		at := r.pos
		name, ok := r.name()
		switch {
		case !ok:
			return false
		case string(name) == typeName:
			ok = r.againType(at, typeAt) && r.skipString()
		case string(name) != "value":
			ok = r.unknown(at, depth)
		case found:
			ok = r.fail(at, moreThanOnce)
		case mp.special == isAny:
			// protojson counts no depth here, and has no bound.
			found, ok = true, r.content(mp, depth+1)
		default:
			found, ok = true, r.content(mp, depth)
		}
		if !ok {
			return false
		}
		at = r.pos
		more, ok := r.more('}')
		if more {
			continue
		}
		// Other implementations write Empty without a value.
		if ok && !found && mp.special != isEmpty {
			return r.fail(at, `"value" is missing`)
		}
		return ok
	}
}

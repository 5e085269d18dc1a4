package transcode

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// checkRequired refuses a whole request without a field that proto2 requires.
// Any are left alone, as protobuf-go leaves them.
func (m *Method) checkRequired(wire []byte) error {
	if path := m.engine.missing(m.input, wire); path != "" {
		return newError(path, "required")
	}
	return nil
}

// holding is what a message has, of what it is to have. A message may come in
// pieces, from body, query and path, which are merged.
type holding struct {
	mp *messagePlan
	// entry: it is a map's entry, which has no part in a path.
	entry bool
	// has are the required fields that are there.
	has []*fieldPlan
	// inside are the singular messages in it.
	inside []held
}

type held struct {
	f *fieldPlan
	*holding
}

// missing gives the path of a required field that a message lacks; empty: none.
func (e *engine) missing(mp *messagePlan, wire []byte) string {
	if !mp.needy {
		return ""
	}
	h := holding{mp: mp}
	if path, _ := e.hold(&h, wire, 0); path != "" {
		return path
	}
	return h.missing()
}

// missing gives the path of a required field that is not there; empty: none.
func (h *holding) missing() string {
	for _, f := range h.mp.required {
		if !slices.Contains(h.has, f) {
			return f.name
		}
	}
	for _, in := range h.inside {
		if path := in.missing(); path != "" {
			return h.join(in.f.name, path)
		}
	}
	return ""
}

// join is the path from the message on.
func (h *holding) join(name, path string) string {
	if h.entry {
		return path
	}
	return name + "." + path
}

// hold adds what the wire has, from pos to its end or to the tag that ends the
// group, and tells where that is. path is what an element of a list, or a
// value of a map, lacks. The reader wrote the wire, so it is not malformed.
func (e *engine) hold(h *holding, wire []byte, pos int) (path string, end int) {
	var elements map[*fieldPlan]int
	for pos < len(wire) {
		num, t, n := protowire.ConsumeTag(wire[pos:])
		pos += n
		if t == protowire.EndGroupType {
			return "", pos
		}
		f := e.numbered(h.mp, num)
		required := f != nil && f.required
		if required && !slices.Contains(h.has, f) {
			h.has = append(h.has, f)
		}
		if f == nil || !f.holdsNeedy() {
			pos += protowire.ConsumeFieldValue(num, t, wire[pos:])
			continue
		}
		in := h.under(f)
		if t == protowire.StartGroupType {
			// In one go: a group's end is found by reading it.
			path, pos = e.hold(in, wire, pos)
		} else {
			content, n := protowire.ConsumeBytes(wire[pos:])
			path, _ = e.hold(in, content, 0)
			pos += n
		}
		if path == "" && (f.list || f.isMap) {
			path = in.missing()
		}
		if path != "" {
			name := f.name
			if f.list {
				name += "[" + strconv.Itoa(elements[f]) + "]"
			}
			return h.join(name, path), pos
		}
		if f.list {
			if elements == nil {
				elements = make(map[*fieldPlan]int)
			}
			elements[f]++
		}
	}
	return "", pos
}

// holdsNeedy tells whether required fields may be missing in the field's values.
func (f *fieldPlan) holdsNeedy() bool {
	if f.isMap {
		f = f.mapValue
	}
	return f.message != nil && f.message.needy
}

// under is what to hold for a value of a field: of a singular message, one for all its pieces.
func (h *holding) under(f *fieldPlan) *holding {
	switch {
	case f.isMap:
		return &holding{mp: f.entry, entry: true}
	case f.list:
		return &holding{mp: f.message}
	}
	for _, in := range h.inside {
		if in.f == f {
			return in.holding
		}
	}
	in := &holding{mp: f.message}
	h.inside = append(h.inside, held{f, in})
	return in
}

// numbered finds a field, or an extension, by its number; nil: none.
func (e *engine) numbered(mp *messagePlan, num protowire.Number) *fieldPlan {
	f := mp.number(num)
	if f == nil && mp.extendable {
		// The reader wrote it, so it is known.
		f, _ = e.lookup.extension(mp, num)
	}
	return f
}

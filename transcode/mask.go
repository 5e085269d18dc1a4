package transcode

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// updateMask is the field that a PATCH fills with what its body names: the
// only FieldMask of the request, as grpc-gateway has it, or of several the one
// called update_mask. nil: none, or path or body bind it, or the body is no
// message of fields.
func (m *Method) updateMask() *fieldPlan {
	if mp := m.body[len(m.body)-1].inside(); mp == nil || mp.special != ordinary {
		return nil
	}
	var mask *fieldPlan
	several := false
	for _, f := range m.input.fields {
		if mp := f.inside(); mp != nil && mp.special == isFieldMask {
			if f.name == "update_mask" {
				mask, several = f, false
				break
			}
			several = mask != nil
			mask = f
		}
	}
	if mask == nil || several {
		return nil
	}
	for _, b := range m.bound {
		if b[0] == mask {
			return nil
		}
	}
	return mask
}

// maxMask bounds the paths of a mask, in bytes: the paths of what lies deeply
// in a Struct may be much longer, together, than the body.
const maxMask = 256 << 10

// maskWalker collects the paths of what a body sets. The rules are those of
// grpc-gateway's FieldMaskFromRequestBody, but for fields that are not known:
// they are refused elsewhere, or else left out.
type maskWalker struct {
	reader
	paths []string
	size  int
}

// appendMask appends the update mask of a body that was read before.
func (m *Method) appendMask(dst, body []byte) ([]byte, error) {
	w := maskWalker{reader: reader{engine: m.engine, in: body}}
	w.space()
	w.fields(m.body[len(m.body)-1].message, "")
	if w.size > maxMask {
		return dst, newError(m.mask.name, "the mask of what the body sets would be too large: give one")
	}
	slices.Sort(w.paths)
	dst = append(protowire.AppendVarint(dst, m.mask.tag), 0)
	mark := len(dst) - 1
	for _, p := range w.paths {
		dst = protowire.AppendVarint(dst, m.mask.message.fields[0].tag)
		dst = protowire.AppendString(dst, p)
	}
	return closeLength(dst, mark), nil
}

// add adds a path.
func (w *maskWalker) add(path string) {
	w.size += len(path)
	w.paths = append(w.paths, path)
}

// join is a path that goes on with a name.
func (w *maskWalker) join(prefix, name string) string {
	if len(prefix)+len(name) > maxMask {
		w.size = maxMask + 1
		return ""
	}
	return prefix + name
}

// members calls f for each member of the object that comes next, with its
// name; f reads the value. What is no object is skipped.
func (w *maskWalker) members(f func(name []byte)) {
	if w.next() != '{' {
		w.skip(2 * maxDepth)
		return
	}
	w.open('{')
	for more := !w.empty('}'); more; more, _ = w.more('}') {
		name, ok := w.name()
		if !ok || w.size > maxMask {
			return
		}
		f(name)
	}
}

// fields adds the paths of what an object sets in a message. prefix is the
// message's own path, with a dot.
func (w *maskWalker) fields(mp *messagePlan, prefix string) {
	w.members(func(name []byte) {
		f := mp.named(name, 0)
		if f == nil {
			w.skip(maxDepth)
			return
		}
		path := w.join(prefix, string(f.desc.Name()))
		known := len(w.paths)
		switch {
		case f.message == nil || f.list || f.isMap || f.message.special == isAny:
			w.skip(2 * maxDepth)
		case f.message.special == isStruct || f.message.special == isValue:
			w.keys(path + ".")
		default:
			w.fields(f.message, path+".")
		}
		if len(w.paths) == known {
			w.add(path)
		}
	})
}

// keys adds the paths of what any object has, each by the names on its way.
func (w *maskWalker) keys(prefix string) {
	w.members(func(name []byte) {
		path := w.join(prefix, string(name))
		known := len(w.paths)
		w.keys(path + ".")
		if len(w.paths) == known {
			w.add(path)
		}
	})
}

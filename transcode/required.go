package transcode

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// checkRequired refuses a whole request without a field that proto2 requires.
func (m *Method) checkRequired(wire []byte) error {
	if path := m.engine.missing(m.input, [][]byte{wire}); path != "" {
		return newError(path, "required")
	}
	return nil
}

// missing finds a required field that a message lacks, which comes in pieces
// to be merged. It gives the path of the field; empty: none.
func (e *engine) missing(mp *messagePlan, pieces [][]byte) string {
	if !mp.needy {
		return ""
	}
	has := make(map[*fieldPlan]bool, len(mp.required))
	elements := make(map[*fieldPlan]int)
	merged := make(map[*fieldPlan][][]byte)
	var order []*fieldPlan // of merged
	for _, wire := range pieces {
		for pos := 0; pos < len(wire); {
			rec := nextField(wire, pos)
			pos = rec.end
			f := e.numbered(mp, rec.num)
			if f == nil {
				continue
			}
			value := wire[rec.value:rec.valueEnd]
			switch {
			case f.isMap && f.mapValue.message != nil:
				if path := e.missing(f.mapValue.message, entryValues(value)); path != "" {
					return f.name + "." + path
				}
			case f.list && f.message != nil:
				if path := e.missing(f.message, [][]byte{value}); path != "" {
					return f.name + "[" + strconv.Itoa(elements[f]) + "]." + path
				}
				elements[f]++
			case f.message != nil && f.message.needy:
				if merged[f] == nil {
					order = append(order, f)
				}
				merged[f] = append(merged[f], value)
			}
			has[f] = true
		}
	}
	for _, f := range mp.required {
		if !has[f] {
			return f.name
		}
	}
	for _, f := range order {
		if path := e.missing(f.message, merged[f]); path != "" {
			return f.name + "." + path
		}
	}
	return ""
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

// entryValues are the values in a map's entry, of which there is one at most.
func entryValues(wire []byte) [][]byte {
	const valueNumber = 2
	var values [][]byte
	for pos := 0; pos < len(wire); {
		rec := nextField(wire, pos)
		pos = rec.end
		if rec.num == valueNumber {
			values = append(values, wire[rec.value:rec.valueEnd])
		}
	}
	return values
}

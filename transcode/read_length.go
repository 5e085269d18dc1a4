package transcode

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A length stands before what it measures, and its own size is not known
// before. One byte is left for it; a longer one needs room. Room for what is
// short is made at once, by moving it. What is long would be moved once for
// each message that it is in, a hundred times, so that its length is noted,
// and room is made for all of these in one pass at the end.

// maxMoved is how much is moved at once, in bytes.
const maxMoved = 16 << 10

// opening is a length that is still open: where it is, and what was noted before.
type opening struct{ mark, noted int }

// longLength is a length for which there is no room yet.
type longLength struct{ mark, length int }

// begin leaves a byte for a length.
func (r *reader) begin() opening {
	r.out = append(r.out, 0)
	return opening{len(r.out) - 1, r.noted}
}

// close writes the length of what was appended since it was begun, or notes it.
func (r *reader) close(o opening) {
	n := len(r.out) - o.mark - 1
	if n <= maxMoved {
		// Too short for anything noted to be inside.
		r.out = closeLength(r.out, o.mark)
		return
	}
	n += r.noted - o.noted
	r.lengths = append(r.lengths, longLength{o.mark, n})
	r.noted += protowire.SizeVarint(uint64(n)) - 1
}

// settle makes room for the lengths that were noted, and writes them.
func (r *reader) settle() {
	if len(r.lengths) == 0 {
		return
	}
	slices.SortFunc(r.lengths, func(a, b longLength) int { return cmp.Compare(b.mark, a.mark) })
	end := len(r.out)
	r.out = append(r.out, make([]byte, r.noted)...)
	to := len(r.out)
	for _, l := range r.lengths {
		// What is behind this length, up to the next.
		to -= end - l.mark - 1
		copy(r.out[to:], r.out[l.mark+1:end])
		to -= protowire.SizeVarint(uint64(l.length))
		protowire.AppendVarint(r.out[:to], uint64(l.length))
		end = l.mark
	}
	r.lengths, r.noted = r.lengths[:0], 0
}

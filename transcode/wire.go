package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth is how deeply a request's messages may be nested: the limit that
// protobuf's C++, Java and Python implementations have by default. protojson's
// own, 10,000, would let one body of a few MiB cost minutes (nested Any is
// scanned once per level) and gigabytes of copying (lengths are written after
// what they measure).
const maxDepth = 100

// closeLength writes the length of what was appended after the one byte that
// was reserved for it at mark, and makes room where one byte is too few.
func closeLength(dst []byte, mark int) []byte {
	n := len(dst) - mark - 1
	if n < 1<<7 {
		dst[mark] = byte(n)
		return dst
	}
	size := protowire.SizeVarint(uint64(n))
	for range size - 1 {
		dst = append(dst, 0)
	}
	copy(dst[mark+size:], dst[mark+1:mark+1+n])
	protowire.AppendVarint(dst[:mark], uint64(n))
	return dst
}

// wrap puts what dst holds from start on inside the messages that the fields
// of path hold, the innermost last.
func wrap(dst []byte, start int, path []*fieldPlan) []byte {
	for i := len(path) - 1; i >= 0; i-- {
		f := path[i]
		n := len(dst) - start
		head := protowire.SizeVarint(f.tag)
		if f.kind != protoreflect.GroupKind {
			head += protowire.SizeVarint(uint64(n))
		}
		for range head {
			dst = append(dst, 0)
		}
		copy(dst[start+head:], dst[start:start+n])
		h := protowire.AppendVarint(dst[:start], f.tag)
		if f.kind == protoreflect.GroupKind {
			dst = protowire.AppendTag(dst, f.num, protowire.EndGroupType)
		} else {
			protowire.AppendVarint(h, uint64(n))
		}
	}
	return dst
}

package transcode

import (
	"maps"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// messagePlan is what a message type comes down to when it is compiled: its
// fields, findable in every way a caller may name them. Immutable once built,
// but for what was learned of it; plans of recursive types form cycles.
type messagePlan struct {
	desc protoreflect.MessageDescriptor
	// special says whether the type has a JSON form of its own.
	special special
	// messageSet: proto1's MessageSet, which has no JSON form.
	messageSet bool
	// extendable: the wire may hold extensions.
	extendable bool
	// required are the fields without which the message is not complete.
	required []*fieldPlan
	// needy: it, or a message in it, has such fields, or may have them by extensions.
	needy bool
	// words is the size of a bit set of the fields, with the oneofs after them.
	words int
	// oneofs counts them, the synthetic ones too.
	oneofs int
	// disorderly: one came whose fields were not in the order of declaration.
	disorderly atomic.Bool
	// fields are in declaration order, which is the order in JSON.
	fields []*fieldPlan
	// byJSON finds a field as protojson does: JSON name before proto name.
	byJSON map[string]*fieldPlan
	// byText finds a field as grpc-gateway does in queries: proto name before JSON name.
	byText map[string]*fieldPlan
	// byNumber finds fields with small numbers, the others are in byLargeNumber.
	byNumber      []*fieldPlan
	byLargeNumber map[protowire.Number]*fieldPlan
}

// fieldPlan is one field.
type fieldPlan struct {
	desc     protoreflect.FieldDescriptor
	num      protowire.Number
	kind     protoreflect.Kind
	index    int    // in messagePlan.fields
	name     string // proto name
	jsonName string
	// unnamed: another field is found by the JSON name.
	unnamed bool
	// member is how the field begins in JSON: a comma, its name in quotes, a colon.
	member string
	// zero is how its zero value looks in JSON, where it is shown though unset.
	zero string
	// unset is the value of a scalar, string, bytes or enum field that is not set, as on the wire but without length.
	unset []byte
	// utf8: protobuf-go refuses messages in which the string is not UTF-8; other strings are refused where they are shown.
	utf8 bool
	// tag is the field's tag on the wire, for one value.
	tag uint64
	// packedTag is the tag of a packed run; 0: not written packed.
	packedTag uint64
	// runTag is the tag of a packed run, whether it is written so or not; tag where it cannot be.
	runTag uint64
	list   bool
	isMap  bool
	// presence: set to its zero value is not the same as unset.
	presence bool
	// required: its message is not complete without it.
	required bool
	// oneof is the index of the oneof that it belongs to, else -1. A proto3 optional field belongs to none.
	oneof int
	// omitUnset: not written when unset even where defaults are (members of oneofs, proto3 optional fields).
	omitUnset bool

	message  *messagePlan // of a message or group, else nil
	enum     *enumPlan    // of an enum, else nil
	mapKey   *fieldPlan   // of a map, else nil
	mapValue *fieldPlan   // of a map, else nil
	entry    *messagePlan // of a map's entries, else nil
}

// enumPlan is an enum's values by name and by number.
type enumPlan struct {
	name     protoreflect.FullName
	byName   map[string]int32
	byNumber map[int32]string
	// quoted are the names of the values from 0 on, as JSON; empty: there is none.
	quoted []string
	// isNull: google.protobuf.NullValue, which is null in JSON.
	isNull bool
}

// isNeedy tells whether a message is needy, as far as it is known which others are.
func (mp *messagePlan) isNeedy() bool {
	if len(mp.required) > 0 || mp.extendable {
		return true
	}
	for _, f := range mp.fields {
		if f.isMap {
			f = f.mapValue
		}
		if f.message != nil && f.message.needy {
			return true
		}
	}
	return false
}

// index fills the ways to find a field. Where one field's JSON name is
// another's proto name, each map prefers what its reference prefers. Where two
// fields have one JSON name, as proto2 lets foo_bar and fooBar, it finds the
// first, as in descriptors.
func (mp *messagePlan) index() {
	jsonNames := make(map[string]*fieldPlan, len(mp.fields))
	var largest protowire.Number
	for _, f := range mp.fields {
		if _, taken := jsonNames[f.jsonName]; !taken {
			jsonNames[f.jsonName] = f
		}
		if f.num > largest {
			largest = f.num
		}
	}
	mp.indexJSON()
	maps.Copy(mp.byText, jsonNames)
	for _, f := range mp.fields {
		mp.byText[f.name] = f
	}
	const small = 64
	mp.byNumber = make([]*fieldPlan, min(int(largest), small-1)+1)
	for _, f := range mp.fields {
		if f.num < small {
			mp.byNumber[f.num] = f
			continue
		}
		if mp.byLargeNumber == nil {
			mp.byLargeNumber = make(map[protowire.Number]*fieldPlan)
		}
		mp.byLargeNumber[f.num] = f
	}
}

// indexJSON asks the descriptor for the fields' names as protojson does; a
// group has some that no other field has.
func (mp *messagePlan) indexJSON() {
	fds := mp.desc.Fields()
	add := func(name string) {
		fd := fds.ByJSONName(name)
		if fd == nil {
			fd = fds.ByTextName(name)
		}
		if fd != nil {
			mp.byJSON[name] = mp.fields[fd.Index()]
		}
	}
	for _, f := range mp.fields {
		for _, name := range []string{f.jsonName, f.name} {
			add(name)
			if f.kind == protoreflect.GroupKind {
				add(strings.ToLower(name))
			}
		}
		f.unnamed = mp.byJSON[f.jsonName] != f
	}
}

// number finds a field by its number; nil: unknown.
func (mp *messagePlan) number(n protowire.Number) *fieldPlan {
	if int(n) < len(mp.byNumber) {
		return mp.byNumber[n]
	}
	return mp.byLargeNumber[n]
}

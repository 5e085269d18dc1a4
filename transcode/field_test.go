package transcode_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// fieldPath is a field that can be read, and what it is read by.
type fieldPath struct {
	path  string
	steps []protoreflect.FieldDescriptor
	field *transcode.Field
}

// fieldPaths are all paths of a message to fields that can be read, with depth
// steps at most.
func fieldPaths(tb testing.TB, md protoreflect.MessageDescriptor, depth int) []fieldPath {
	tb.Helper()
	var all []fieldPath
	var visit func(md protoreflect.MessageDescriptor, names []string, steps []protoreflect.FieldDescriptor)
	visit = func(md protoreflect.MessageDescriptor, names []string, steps []protoreflect.FieldDescriptor) {
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			names := append(slices.Clone(names), string(fd.Name()))
			steps := append(slices.Clone(steps), fd)
			path := strings.Join(names, ".")
			field, err := transcode.CompileField(md.Fields().Get(i).ContainingMessage(), string(fd.Name()))
			if err == nil {
				if len(steps) > 1 {
					field, err = transcode.CompileField(steps[0].ContainingMessage(), path)
				}
				if err != nil {
					tb.Fatalf("%s: %v", path, err)
				}
				all = append(all, fieldPath{path, steps, field})
			} else if fd.Message() != nil && fd.Cardinality() != protoreflect.Repeated && len(steps) < depth {
				visit(fd.Message(), names, steps)
			}
		}
	}
	visit(md, nil, nil)
	return all
}

// fieldsOfAll are the paths of the messages of all syntaxes.
func fieldsOfAll(tb testing.TB) (all [4][]fieldPath) {
	for i, name := range echoes {
		all[i] = fieldPaths(tb, method(tb, name).Output(), 3)
	}
	return all
}

// checkFields compares what is read of a message with what dynamicpb reads.
// It tells whether that took the message.
func checkFields(t *testing.T, fields []fieldPath, name protoreflect.FullName, wire []byte) (accepted bool) {
	t.Helper()
	msg := dynamicpb.NewMessage(method(t, name).Output())
	accepted = unmarshalled(wire, msg)
	for _, f := range fields {
		got, err := f.field.Read(wire)
		if !accepted {
			continue // it looks at more than the fields on the way
		}
		if err != nil {
			t.Fatalf("% x: %s: %v, but the message is well-formed", wire, f.path, err)
		}
		var m protoreflect.Message = msg
		for _, step := range f.steps[:len(f.steps)-1] {
			m = m.Get(step).Message()
		}
		leaf := f.steps[len(f.steps)-1]
		want := m.Get(leaf)
		if text := shownValue(leaf, want); f.field.Text(got) != text {
			t.Fatalf("% x: %s is %q, want %q", wire, f.path, f.field.Text(got), text)
		}
		if leaf.HasPresence() && got.IsSet() != m.Has(leaf) {
			t.Fatalf("% x: %s is set: %v, want %v", wire, f.path, got.IsSet(), m.Has(leaf))
		}
		if again, err := f.field.Parse(f.field.Text(got)); err != nil || !again.Equal(got) {
			t.Fatalf("% x: %s: %q is not read back: %v", wire, f.path, f.field.Text(got), err)
		}
	}
	return accepted
}

// unmarshalled reads a message where it is one, as far as that can be told:
// dynamicpb panics over some that are none.
func unmarshalled(wire []byte, msg proto.Message) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true, Resolver: testSchema().types}.Unmarshal(wire, msg) == nil
}

func shownValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch fd.Kind() {
	case protoreflect.EnumKind:
		return fmt.Sprint(int32(v.Enum()))
	case protoreflect.BytesKind:
		return string(v.Bytes())
	default:
		return fmt.Sprint(v.Interface())
	}
}

// FuzzField compares with dynamicpb for messages that are made to be unusual.
func FuzzField(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, byte(seed))
	}
	fields := fieldsOfAll(f)
	f.Fuzz(func(t *testing.T, seed uint64, which byte) {
		i := int(which) % len(echoes)
		w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 2)), types: testSchema().types}
		checkFields(t, fields[i], echoes[i], w.message(method(t, echoes[i]).Output(), 5))
	})
}

// FuzzFieldBytes does the same for any bytes.
func FuzzFieldBytes(f *testing.F) {
	fields := fieldsOfAll(f)
	for seed := range uint64(16) {
		for i, name := range echoes {
			w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 3)), types: testSchema().types}
			f.Add(w.message(method(f, name).Output(), 4), byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, which byte) {
		i := int(which) % len(echoes)
		checkFields(t, fields[i], echoes[i], wire)
	})
}

// TestFieldsOfGeneratedMessages is a run of FuzzField that is long enough to
// meet what there is.
func TestFieldsOfGeneratedMessages(t *testing.T) {
	t.Parallel()
	fields := fieldsOfAll(t)
	accepted := 0
	for seed := range uint64(4000) {
		i := int(seed) % len(echoes)
		w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 4)), types: testSchema().types}
		if checkFields(t, fields[i], echoes[i], w.message(method(t, echoes[i]).Output(), 5)) {
			accepted++
		}
	}
	if accepted < 2000 {
		t.Errorf("only %d messages were well-formed", accepted)
	}
}

func TestFieldsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	md := method(t, corner).Output()
	for path, want := range map[string]string{
		"":                "has no field \"\"",
		"no":              "message corners.Corner has no field \"no\"",
		"packed":          "has many values",
		"by_text":         "has many values",
		"prefixed":        "is a message",
		"delimited":       "is a group",
		"double_default":  "is a double",
		"explicit.x":      "is no message",
		"prefixed.no":     "message corners.Corner has no field \"no\"",
		"prefixed.packed": "has many values",
	} {
		if _, err := transcode.CompileField(md, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestFieldValuesAsText(t *testing.T) {
	t.Parallel()
	md := method(t, corner).Output()
	for _, tc := range []struct{ path, text, fault string }{
		{"explicit", "-7", ""},
		{"explicit", "2147483648", "an integer of 32 bits"},
		{"explicit", "x", "an integer"},
		{"longDefault", "-9223372036854775808", ""},
		{"closed", "CLOSED_TWO", ""},
		{"closed", "2", ""},
		{"closed", "CLOSED", "neither a name nor a number of enum corners.Closed"},
		{"text_default", "", ""},
		{"prefixed.prefixed.second_sint", "-1", ""},
	} {
		f, err := transcode.CompileField(md, tc.path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Parse(tc.text)
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %q: %v, want %q", tc.path, tc.text, err, tc.fault)
		}
	}
}

// Reading is for each call's answer.
func TestReadingAFieldAllocatesNothing(t *testing.T) {
	md := method(t, corner).Output()
	f, err := transcode.CompileField(md, "prefixed.delimited.choice_int")
	if err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(parse(t, corner, `{"prefixed": {"explicit": 1, "delimited": {"choiceInt": 7, "checked": "abc"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if v, err := f.Read(wire); err != nil || !v.IsSet() {
			t.Fatal(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if f, err = transcode.CompileField(md, "text_default"); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if v, err := f.Read(nil); err != nil || v.IsSet() || f.Text(v) == "" {
			t.Fatal(v, err)
		}
	}); n != 1 { // the text itself
		t.Errorf("%v allocations for a default", n)
	}
}

func BenchmarkField(b *testing.B) {
	f, err := transcode.CompileField(method(b, corner).Output(), "prefixed.explicit")
	if err != nil {
		b.Fatal(err)
	}
	wire, err := proto.Marshal(parse(b, corner, `{"checked": "some text", "prefixed": {"explicit": 1}, "textDefault": "more text"}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Read(wire); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	md := method(t, corner).Output()
	wire, err := transcode.Encode(md, []byte(`{"explicit": 3, "closed": "CLOSED_TWO"}`), testSchema().types)
	if err != nil {
		t.Fatal(err)
	}
	if want := parse(t, corner, `{"explicit": 3, "closed": "CLOSED_TWO"}`); !proto.Equal(decode(t, corner, wire), want) {
		t.Errorf("% x is not %s", wire, show(want))
	}
	for text, want := range map[string]string{
		`{"explicit": 3, "nosuch": 1}`: "nosuch",
		`{"explicit": "x"}`:            "explicit",
		`{`:                            "",
		`7`:                            "",
	} {
		if _, err := transcode.Encode(md, []byte(text), testSchema().types); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

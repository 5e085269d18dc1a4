package transcode_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// boundValues are path variables with values, which replace what bodies say.
var boundValues = [][2]string{
	{"string_value", "A"}, {"int32_value", "0"}, {"color", "RED"}, {"ints", "1,2"}, {"strings", "a"}, {"mask", "x"}, {"struct", `{"z":1}`},
	{"value", "null"}, {"empty", "{}"}, {"time", "2020-01-01T00:00:00Z"}, {"int64_wrapper", "0"}, {"choice_int", "5"}, {"choice_small.a", "x"},
	{"choice_small.id", "1"}, {"sub.string_value", ""}, {"sub.ints", "7"}, {"sub.sub.colors", "GREEN"}, {"other_sub.strings", ""},
	{"sub.choice_string", "y"}, {"sub.mask", "a,b"}, {"other_sub.sub.sub.strings", "deep"}, {"choice_time", "2020-01-01T00:00:00Z"},
}

// FuzzBound compares path variables over bodies with what dynamicpb and
// grpc-gateway make of both.
func FuzzBound(f *testing.F) {
	compare := madeBound(f)
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for i := range uint64(10) {
			compare(t, seed+i<<32)
		}
	})
}

func madeBound(tb testing.TB) func(*testing.T, uint64) {
	md := method(tb, echo).Input()
	methods := make(map[[2]int]*transcode.Method)
	for i, v := range boundValues {
		for j, body := range []string{"*", "sub"} {
			m, err := transcode.Compile(method(tb, echo), transcode.Binding{Body: body, Vars: []string{v[0]}}, defaults, testSchema().types)
			if err == nil {
				methods[[2]int{i, j}] = m
			}
		}
	}
	return func(t *testing.T, seed uint64) {
		t.Helper()
		j := jsonMaker{rand.New(rand.NewPCG(seed, 3)), testSchema().types}
		which, whole := j.IntN(len(boundValues)), j.IntN(2)
		m := methods[[2]int{which, whole}]
		if m == nil {
			return
		}
		path, value := boundValues[which][0], boundValues[which][1]
		body := j.body(md)
		if len(body) == 0 {
			return
		}
		want := dynamicpb.NewMessage(md)
		in := want
		if whole == 1 {
			in = dynamicpb.NewMessage(md)
		}
		o := protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: transcode.Linked(testSchema().types), RecursionLimit: 100}
		if !json.Valid(body) || o.Unmarshal(body, in) != nil {
			return
		}
		if whole == 1 {
			want.Set(md.Fields().ByName("sub"), protoreflect.ValueOfMessage(in))
		}
		clash := clearPath(want, strings.Split(path, "."))
		got, err := m.AppendRequest(nil, transcode.Input{Body: body, Vars: []string{value}})
		if err != nil && differs(body, true, err) {
			return
		}
		if (err == nil) == clash {
			t.Fatalf("%s=%s over %s: err = %v, of a oneof: %v", path, value, body, err, clash)
		}
		if clash {
			return
		}
		values := []string{value}
		if !strings.Contains(path, ".") && md.Fields().ByName(protoreflect.Name(path)).IsList() {
			values = strings.Split(value, ",")
		}
		for _, v := range values {
			if err := populate(want, path, v); err != nil {
				t.Fatalf("%s=%s: %v", path, value, err)
			}
		}
		w, err := again(t, want)
		if err != nil {
			t.Fatal(err)
		}
		g := decode(t, echo, got)
		canonical(t, g)
		canonical(t, w)
		if !proto.Equal(g, w) {
			t.Fatalf("%s=%s over %s:\ngot  %s\nwant %s", path, value, body, show(g), show(w))
		}
	}
}

// populate sets a path variable. grpc-gateway would refuse what is set before
// in a oneof, so the variable is set in a message of its own, and merged.
func populate(msg *dynamicpb.Message, path, value string) error {
	lone := dynamicpb.NewMessage(msg.Descriptor())
	if err := runtime.PopulateFieldFromPath(lone, path, value); err != nil {
		return err
	}
	b, err := proto.Marshal(lone)
	if err != nil {
		return err
	}
	// An implicit zero is cleared above, and left out here.
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, msg)
}

// clearPath takes the field at the end of a path out of a message. It tells
// whether another member of a oneof on the path is set.
func clearPath(in protoreflect.Message, path []string) (clash bool) {
	for i, name := range path {
		fd := in.Descriptor().Fields().ByName(protoreflect.Name(name))
		if od := fd.ContainingOneof(); od != nil {
			if other := in.WhichOneof(od); other != nil && other.Number() != fd.Number() {
				return true
			}
		}
		if !in.Has(fd) {
			return false
		}
		if i == len(path)-1 {
			in.Clear(fd)
			return false
		}
		in = in.Mutable(fd).Message()
	}
	return false
}

// FuzzRequired compares what lacks required fields with proto.CheckInitialized.
func FuzzRequired(f *testing.F) {
	m := compile(f, legacy, transcode.Binding{Body: "*"}, defaults)
	md := method(f, legacy).Input()
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		j := jsonMaker{rand.New(rand.NewPCG(seed, 4)), testSchema().types}
		body := j.body(md)
		wire, err := m.ReadBody(nil, body)
		if err != nil || len(body) == 0 {
			return
		}
		want := proto.CheckInitialized(decode(t, legacy, wire))
		_, err = m.AppendRequest(nil, transcode.Input{Body: body})
		if (err == nil) != (want == nil) {
			t.Fatalf("%s: err = %v, protobuf-go says %v", body, err, want)
		}
	})
}

// FuzzForm compares forms with queries of the message that the body is.
func FuzzForm(f *testing.F) {
	for _, form := range []string{
		"int32_value=1&string_value=x+y%20z&colors=1&colors=GREEN", "sub.sub.int32_value=1&sub.sub.stringValue=x&sub.ints=1", "labels[a]=b",
		"string_value=B", "time=2016-12-15T12:23:32Z", "choice_int=1&choice_string=x", "nope=1", "%zz=1", "", "&", "int32_value=x",
	} {
		f.Add(form, false)
		f.Add(form, true)
	}
	whole := compile(f, echo, transcode.Binding{Body: "*", Vars: []string{"string_value"}}, defaults)
	inside := compile(f, echo, transcode.Binding{Body: "sub", Vars: []string{"sub.string_value", "int32_value"}}, defaults)
	f.Fuzz(func(t *testing.T, form string, below bool) {
		values, parseErr := url.ParseQuery(form)
		md := method(t, echo).Input()
		if len(form) > 4096 || parseErr == nil && undecided(md, values) {
			t.Skip("beyond our own limits, or grpc-gateway leaves it to chance")
		}
		in := parse(t, echo, `{"stringValue":"A"}`)
		for key := range values {
			if strings.HasPrefix(key, "stringValue.") {
				t.Skip("in a field that the path binds: grpc-gateway ignores that for its proto name only, and refuses it for the other")
			}
		}
		err := parseErr
		if err == nil {
			err = runtime.PopulateQueryParameters(in, values, utilities.NewDoubleArray([][]string{{"string_value"}}))
		}
		var want *dynamicpb.Message
		if err == nil {
			want, err = again(t, in)
		}
		m, vars := whole, []string{"A"}
		if below {
			m, vars = inside, []string{"A", "3"}
			if err == nil {
				outer := parse(t, echo, `{"int32Value":3}`)
				outer.Set(md.Fields().ByName("sub"), protoreflect.ValueOfMessage(want))
				want = outer
			}
		}
		wire, gotErr := m.AppendRequest(nil, transcode.Input{Form: true, Body: []byte(form), Vars: vars})
		checkPublic(t, nil, gotErr)
		if (err == nil) != (gotErr == nil) {
			t.Fatalf("%q: err = %v, grpc-gateway says %v", form, gotErr, err)
		}
		if err == nil {
			if got := decode(t, echo, wire); !proto.Equal(got, want) {
				t.Fatalf("%q:\ngot  %s\nwant %s", form, show(got), show(want))
			}
		}
	})
}

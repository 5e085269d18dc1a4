package transcode_test

import (
	"encoding/json"
	"net/url"
	"strconv"
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

// unmarshal reads JSON that may be bad.
type unmarshal struct{}

func (unmarshal) try(text []byte, msg proto.Message) bool {
	return (protojson.UnmarshalOptions{Resolver: transcode.Linked(testSchema().types)}).Unmarshal(text, msg) == nil
}

// bindings under which queries are compared, with what the path and body set.
var bindings = []struct {
	binding transcode.Binding
	body    string
	vars    []string
	set     string // what body and variables come to
}{
	{set: `{}`},
	{binding: transcode.Binding{Vars: []string{"string_value"}}, vars: []string{"A"}, set: `{"stringValue":"A"}`},
	{binding: transcode.Binding{Vars: []string{"sub.string_value", "time.seconds"}}, vars: []string{"A", "5"}, set: `{"sub":{"stringValue":"A"},"time":"1970-01-01T00:00:05Z"}`},
	{binding: transcode.Binding{Body: "sub", Vars: []string{"choice_int"}}, body: `{"boolValue":true}`, vars: []string{"3"}, set: `{"sub":{"boolValue":true},"choiceInt":3}`},
}

// FuzzQuery compares queries with grpc-gateway's PopulateQueryParameters.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"int32_value=1&int64Value=2&string_value=x+y%20z&bool_value=T&color=RED&colors=1&colors=GREEN&bytes_value=-_8&float_value=1.5&double_value=NaN",
		"sub.sub.int32_value=1&sub.sub.stringValue=x&sub.ints=1&sub.ints=2",
		"labels[a]=b&labels[c]=d&by_int[1]=x&by_bool[true]=1&by_long[-1]=RED&durations[x]=1s&labels=a&labels=b",
		"time=2016-12-15T12:23:32.000000049Z&duration=1h5m&mask=a,b.c&struct=%7B%22a%22:1%7D&value=%5B1%5D&empty={}&string_wrapper=x&int64_wrapper=9007199254740993&times=1970-01-01T00:00:00Z",
		"choice_int=1&choice_string=x", "choice_small.a=1&choice_small.b=2", "choice_time.seconds=5", "choice_null=NULL_VALUE",
		"int32Value=1&int32_value=2", "int32_value=1&int32_value=2", "ints[]=1", "sub=x", "any.type_url=x", "list.values=1", "struct.fields[a]=1",
		"string_value=B&stringValue=C", "time.nanos=7&time=2016-12-15T12:23:32Z", "nope=1&sub.nope=2", "a;b=1", "%zz=1", "optional_int=0&other+name=x&far=-1",
	} {
		for i := range bindings {
			f.Add(q, byte(i))
		}
	}
	methods := make([]*transcode.Method, len(bindings))
	for i, b := range bindings {
		methods[i] = compile(f, echo, b.binding, defaults)
	}
	f.Fuzz(func(t *testing.T, query string, which byte) {
		b := bindings[int(which)%len(bindings)]
		if len(query) > 4096 {
			t.Skip("beyond our own limits")
		}
		values, parseErr := url.ParseQuery(query)
		md := method(t, echo).Input()
		if parseErr == nil && undecided(md, values) {
			t.Skip("grpc-gateway leaves it to chance")
		}
		want := parse(t, echo, b.set)
		wantErr := parseErr
		if wantErr == nil {
			var seqs [][]string
			for _, path := range append([]string{b.binding.Body}, b.binding.Vars...) {
				if path != "" {
					seqs = append(seqs, strings.Split(path, "."))
				}
			}
			wantErr = runtime.PopulateQueryParameters(want, values, utilities.NewDoubleArray(seqs))
		}
		if wantErr == nil {
			want, wantErr = again(t, want)
		}
		m := methods[int(which)%len(methods)]
		wire, err := m.AppendRequest(nil, transcode.Input{Body: []byte(b.body), Query: query, Vars: b.vars})
		checkPublic(t, nil, err)
		if (err == nil) != (wantErr == nil) && !strictJSON(err, values) {
			t.Fatalf("%q under %+v: err = %v, grpc-gateway says %v", query, b.binding, err, wantErr)
		}
		if err == nil && wantErr == nil {
			if got := decode(t, echo, wire); !proto.Equal(got, want) {
				t.Fatalf("%q under %+v:\ngot  %s\nwant %s", query, b.binding, show(got), show(want))
			}
		}
	})
}

// strictJSON tells whether an error is about a Value or Struct that is no JSON,
// but protojson takes it.
func strictJSON(err error, values url.Values) bool {
	if err == nil || !strings.Contains(err.Error(), "not valid JSON") {
		return false
	}
	for _, texts := range values {
		for _, text := range texts {
			if !json.Valid([]byte(text)) {
				return true
			}
		}
	}
	return false
}

// again is a message of the schema's own types alone: grpc-gateway puts generated ones into it.
func again(t *testing.T, msg *dynamicpb.Message) (*dynamicpb.Message, error) {
	t.Helper()
	wire, err := proto.Marshal(msg)
	if err != nil {
		return nil, err
	}
	return decode(t, echo, wire), nil
}

// undecided tells whether grpc-gateway's answer hangs on the order of a Go
// map, or on what we leave out by intent: the empty message that an unknown
// field inside it leaves behind.
func undecided(md protoreflect.MessageDescriptor, values url.Values) bool {
	var paths []string
	entries := make(map[string]bool)
	for key := range values {
		field, entry := key, ""
		if i := strings.LastIndexByte(key, '['); i >= 0 && strings.HasSuffix(key, "]") && !strings.Contains(key, "\n") {
			field, entry = key[:i], key[i+1:len(key)-1]
		}
		path := ""
		in := md
		var last protoreflect.FieldDescriptor
		for i, name := range strings.Split(field, ".") {
			if in == nil {
				break // an invalid path: refused
			}
			fd := in.Fields().ByTextName(name)
			if fd == nil {
				fd = in.Fields().ByJSONName(name)
			}
			if fd == nil {
				if i > 0 {
					return true
				}
				path = ""
				break
			}
			path += string(fd.Name()) + "."
			in, last = nil, fd
			if !fd.IsList() && !fd.IsMap() {
				in = fd.Message()
			}
		}
		if path == "" {
			continue
		}
		if last.IsMap() {
			if entries[path+"="] || (entry == "" && entries[path]) {
				return true
			}
			entries[path] = true
			if field == key {
				entries[path+"="] = true
			}
			entry = canonicalKey(last.MapKey().Kind(), entry)
			if entries[path+entry+"]"] {
				return true
			}
			entries[path+entry+"]"] = true
			if entries[path+"="] && len(entries) > 2 {
				return true
			}
		}
		paths = append(paths, path)
	}
	for i, a := range paths {
		for _, b := range paths[:i] {
			if a != b && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
				return true
			}
		}
	}
	return false
}

// canonicalKey brings the spellings of one map key together.
func canonicalKey(k protoreflect.Kind, text string) string {
	switch k {
	case protoreflect.StringKind:
		return text
	case protoreflect.BoolKind:
		if v, err := strconv.ParseBool(text); err == nil {
			return strconv.FormatBool(v)
		}
	default:
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.FormatInt(v, 10)
		}
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			return strconv.FormatUint(v, 10)
		}
	}
	return text
}

// variables that paths are compared for.
var pathVars = []string{"string_value", "int32_value", "int64_value", "uint64_value", "bool_value", "float_value", "double_value", "bytes_value", "color", "time", "duration", "mask", "struct", "value", "empty", "string_wrapper", "bytes_wrapper", "bool_wrapper", "uint64_wrapper", "sub.string_value", "sub.ints", "sub.sub.color", "ints", "colors", "choice_int", "choice_small.a", "optional_string", "sfixed32_value", "sint64_value", "sub.duration"}

// FuzzPath compares path variables with grpc-gateway's PopulateFieldFromPath.
func FuzzPath(f *testing.F) {
	for i := range pathVars {
		for _, v := range []string{"", "x", "1", "-1", "true", "1.5", "AQ==", "RED", "2016-12-15T12:23:32Z", "1h", "a,b", "{}", "1,2"} {
			f.Add(byte(i), v)
		}
	}
	methods := make([]*transcode.Method, len(pathVars))
	for i, path := range pathVars {
		methods[i] = compile(f, echo, transcode.Binding{Vars: []string{path}}, defaults)
	}
	f.Fuzz(func(t *testing.T, which byte, value string) {
		path := pathVars[int(which)%len(pathVars)]
		md := method(t, echo).Input()
		want := dynamicpb.NewMessage(md)
		elements := []string{value}
		if fd := md.Fields().ByName(protoreflect.Name(path)); fd != nil && fd.IsList() {
			// Generated code splits; PopulateFieldFromPath does not.
			elements = strings.Split(value, ",")
		}
		var wantErr error
		for _, e := range elements {
			if wantErr == nil {
				wantErr = runtime.PopulateFieldFromPath(want, path, e)
			}
		}
		if wantErr == nil {
			want, wantErr = again(t, want)
		}
		wire, err := methods[int(which)%len(methods)].AppendRequest(nil, transcode.Input{Vars: []string{value}})
		checkPublic(t, nil, err)
		if (err == nil) != (wantErr == nil) && !strictJSON(err, url.Values{path: {value}}) {
			t.Fatalf("%s=%q: err = %v, grpc-gateway says %v", path, value, err, wantErr)
		}
		if err == nil {
			if got := decode(t, echo, wire); !proto.Equal(got, want) {
				t.Fatalf("%s=%q:\ngot  %s\nwant %s", path, value, show(got), show(want))
			}
		}
	})
}

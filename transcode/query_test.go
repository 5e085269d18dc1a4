package transcode_test

import (
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

func TestQuery(t *testing.T) {
	tests := []struct {
		name   string
		strict bool
		query  string
		want   string
		field  string
		reason string
	}{
		{name: "empty", want: `{}`},
		{name: "proto name", query: "int32_value=-1", want: `{"int32Value":-1}`},
		{name: "JSON name", query: "int32Value=-1", want: `{"int32Value":-1}`},
		{name: "custom JSON name", query: "other+name=x", want: `{"other name":"x"}`},
		{name: "both names of one field", query: "int32Value=1&int32_value=2", field: "int32_value", reason: "another name"},
		{name: "both names of one list", query: "by_int[1]=a&byInt[1]=b", field: "byInt[1]", reason: "another name"},
		{name: "scalar twice", query: "int32_value=1&int32_value=1", field: "int32_value", reason: "given more than once"},
		{name: "list", query: "ints=1&strings=a&ints=2&strings=&ints=3", want: `{"ints":[1,2,3],"strings":["a",""]}`},
		{name: "nested", query: "sub.sub.stringValue=x&sub.int32_value=1&sub.sub.ints=1&sub.sub.ints=2", want: `{"sub":{"int32Value":1,"sub":{"stringValue":"x","ints":[1,2]}}}`},
		{name: "percent-encoding is undone once", query: "string_value=%2523+%26%3D%2F", want: `{"stringValue":"%23 &=/"}`},
		{name: "64 bits", query: "int64_value=9007199254740993&uint64_value=18446744073709551615&sint64_value=-9223372036854775808&fixed64_value=1&sfixed64_value=-1", want: `{"int64Value":"9007199254740993","uint64Value":"18446744073709551615","sint64Value":"-9223372036854775808","fixed64Value":"1","sfixed64Value":"-1"}`},
		{name: "32 bits", query: "int32_value=-2147483648&uint32_value=4294967295&sint32_value=-2&fixed32_value=3&sfixed32_value=-4", want: `{"int32Value":-2147483648,"uint32Value":4294967295,"sint32Value":-2,"fixed32Value":3,"sfixed32Value":-4}`},
		{name: "out of range", query: "uint32_value=4294967296", field: "uint32_value", reason: "out of range for uint32"},
		{name: "not a number", query: "int64Value=1.5", field: "int64Value", reason: "not a valid int64"},
		{name: "empty number", query: "sub.int64Value=", field: "sub.int64Value", reason: "not a valid int64"},
		{name: "floats", query: "float_value=1.5&double_value=-Infinity", want: `{"floatValue":1.5,"doubleValue":"-Infinity"}`},
		{name: "hexadecimal float", query: "double_value=0x1p4", field: "double_value", reason: "not a valid double"},
		{name: "bool forms", query: "bools=true&bools=1&bools=F&bools=TRUE", want: `{"bools":[true,true,false,true]}`},
		{name: "bad bool", query: "bool_value=yes", field: "bool_value", reason: "not a valid bool"},
		{name: "bytes in both alphabets", query: "blobs=-_8%3D&blobs=%2B/8=&blobs=-_8", want: `{"blobs":["+/8=","+/8=","+/8="]}`},
		{name: "bad bytes", query: "bytes_value=%21", field: "bytes_value", reason: "not valid base64"},
		{name: "enum by name and number", query: "colors=RED&colors=2&colors=-1", want: `{"colors":["RED","GREEN","BELOW"]}`},
		{name: "unknown enum name", query: "color=MAUVE", field: "color", reason: "not a value of enum everything.Color"},
		{name: "unknown enum number", query: "color=17", field: "color", reason: "not a value of enum everything.Color"},
		{name: "empty repeated enum", query: "colors=", field: "colors", reason: "not a value of enum everything.Color"},
		{name: "timestamp", query: "time=2016-12-15T12:23:32.000000049Z", want: `{"time":"2016-12-15T12:23:32.000000049Z"}`},
		{name: "timestamp with offset", query: "time=2016-12-15T12:23:32%2B01:00", want: `{"time":"2016-12-15T11:23:32Z"}`},
		{name: "timestamp before 1970", query: "time=1960-01-01T00:00:00.5Z", want: `{"time":"1960-01-01T00:00:00.5Z"}`},
		{name: "bad timestamp", query: "time=2016", field: "time", reason: "not a valid timestamp"},
		{name: "timestamp out of range", query: "time=0000-01-01T00:00:00Z", field: "time", reason: "out of range"},
		{name: "timestamp's fields", query: "time.seconds=1&time.nanos=5", want: `{"time":"1970-01-01T00:00:01.000000005Z"}`},
		{name: "duration", query: "duration=-1.5s", want: `{"duration":"-1.5s"}`},
		{name: "duration in Go's form", query: "duration=13h0m0s", want: `{"duration":"46800s"}`},
		{name: "bad duration", query: "duration=5", field: "duration", reason: "not a valid duration"},
		{name: "field mask", query: "mask=a,b.c_d", want: `{"mask":"a,b.cD"}`},
		{name: "empty field mask", query: "mask=", want: `{"mask":""}`},
		{name: "wrappers", query: "bool_wrapper=true&int32Wrapper=-1&int64Wrapper=9007199254740993&uint32Wrapper=1&uint64Wrapper=2&floatWrapper=1.5&doubleWrapper=2.5&stringWrapper=plain&bytesWrapper=-_8", want: `{"boolWrapper":true,"int32Wrapper":-1,"int64Wrapper":"9007199254740993","uint32Wrapper":1,"uint64Wrapper":"2","floatWrapper":1.5,"doubleWrapper":2.5,"stringWrapper":"plain","bytesWrapper":"+/8="}`},
		{name: "wrapper's zero is set", query: "int32Wrapper=0&stringWrapper=", want: `{"int32Wrapper":0,"stringWrapper":""}`},
		{name: "bad wrapper", query: "int32_wrapper=x", field: "int32_wrapper", reason: "not a valid int32"},
		{name: "optional zero is set", query: "optional_int=0&optionalString=", want: `{"optionalInt":0,"optionalString":""}`},
		{name: "struct and value", query: "struct=%7B%22a%22:%7B%22b%22:1%7D%7D&value=%5B1%5D", want: `{"struct":{"a":{"b":1}},"value":[1]}`},
		{name: "bad struct", query: "struct=1", field: "struct", reason: "not valid JSON for google.protobuf.Struct"},
		{name: "empty", query: "empty=&sub.empty=%7B%7D", want: `{"empty":{},"sub":{"empty":{}}}`},
		{name: "not so empty", query: "empty=1", field: "empty", reason: "must be empty"},
		{name: "map entries", query: "labels[a]=1&labels[b]=2&by_int[-3]=x&byBool[true]=1.5&by_long[4]=RED&sub.labels[a.b]=c", want: `{"labels":{"a":"1","b":"2"},"byInt":{"-3":"x"},"byBool":{"true":1.5},"byLong":{"4":"RED"},"sub":{"labels":{"a.b":"c"}}}`},
		{name: "map entry of a message with a text form", query: "durations[a]=1s", want: `{"durations":{"a":"1s"}}`},
		{name: "map entry of another message", query: "by_ulong[1]=x", field: "by_ulong[1]", reason: "everything.Small cannot be written as a parameter"},
		{name: "bad map key", query: "by_int[x]=1", field: "by_int[x]", reason: "the key is not a valid int32"},
		{name: "bad map value", query: "by_long[1]=x", field: "by_long[1]", reason: "not a value of enum"},
		{name: "map entry twice", query: "labels[a]=1&labels[a]=2", field: "labels[a]", reason: "given more than once"},
		{name: "map without entry", query: "labels=x", field: "labels", reason: "labels[key]=value"},
		{name: "entry of what is no map", query: "ints[]=1", field: "ints[]", reason: "not a map"},
		{name: "oneof", query: "choice_int=0&otherBool=false", want: `{"choiceInt":0,"otherBool":false}`},
		{name: "two members of a oneof", query: "choice_int=1&choice_string=a", field: "choice_int", reason: "another member of oneof choice is set already"},
		{name: "two members of a oneof inside", query: "sub.choice_int=1&choice_int=2&sub.choice_string=a", field: "sub.choice_int", reason: "another member of oneof choice is set already"},
		{name: "fields of one message member", query: "choice_small.id=1&choice_small.name=x&choice_small.a=y", want: `{"choiceSmall":{"id":"1","name":"x","a":"y"}}`},
		{name: "path through a scalar", query: "string_value.x=1", field: "string_value.x", reason: "string_value is not a singular message"},
		{name: "path through a list", query: "smalls.id=1", field: "smalls.id", reason: "smalls is not a singular message"},
		{name: "message without text form", query: "sub=x", field: "sub", reason: "everything.Everything cannot be written as a parameter"},
		{name: "list of messages", query: "smalls=x", field: "smalls", reason: "everything.Small cannot be written as a parameter"},
		{name: "list of timestamps", query: "times=1970-01-01T00:00:01Z&times=1970-01-01T00:00:02Z", want: `{"times":["1970-01-01T00:00:01Z","1970-01-01T00:00:02Z"]}`},
		{name: "unknown ignored", query: "nope=1&sub.nope=2&utm_source=x&int32_value=3", want: `{"int32Value":3}`},
		{name: "unknown refused", strict: true, query: "nope=1", field: "nope", reason: "no such query parameter"},
		{name: "unknown refused inside", strict: true, query: "sub.nope=1", field: "sub.nope", reason: "no such query parameter"},
		{name: "odd separators", query: "&&int32_value=1&", want: `{"int32Value":1}`},
		{name: "semicolon", query: "int32_value=1;string_value=x", reason: "separated by &"},
		{name: "bad percent-encoding in a key", query: "a%zz=1", reason: "malformed percent-encoding"},
		{name: "bad percent-encoding in a value", query: "string_value=%f", field: "string_value", reason: "malformed percent-encoding"},
		{name: "invalid UTF-8", query: "string_value=%ff", field: "string_value", reason: "not valid UTF-8"},
		{name: "invalid UTF-8 in a map key", query: "labels[%ff]=x", field: "labels[\uFFFD]", reason: "the key is not valid UTF-8"},
		{name: "nested too deeply", query: strings.Repeat("sub.", 100) + "int32_value=1", field: strings.Repeat("sub.", 32) + "…", reason: "nested too deeply"},
		{name: "too many parameters", query: strings.Repeat("nope&", 10001), reason: "too many query parameters"},
		{name: "large field number", query: "far=1", want: `{"far":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := compile(t, echo, transcode.Binding{}, config.JSON{DiscardUnknown: !tt.strict})
			got, err := m.AppendRequest([]byte("before"), transcode.Input{Query: tt.query})
			checkRequest(t, echo, got, err, tt.want, tt.field, tt.reason)
		})
	}
}

package transcode_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// options of a fuzzed byte.
func options(b byte) config.JSON {
	return config.JSON{
		EmitDefaults:   b&1 != 0,
		UseProtoNames:  b&2 != 0,
		EnumsAsNumbers: b&4 != 0,
		DiscardUnknown: b&8 != 0,
	}
}

// bodies are seeds with every kind of field.
var bodies = []string{
	`{}`,
	`{"stringValue":"a\"\\\u00e4\ud83d\ude00ü","boolValue":true,"int32Value":-5,"sint32_value":"7","uint32Value":4294967295,"floatValue":1.5e3,"doubleValue":"NaN","int64Value":"-9223372036854775808","uint64Value":18446744073709551615}`,
	`{"fixed32Value":1,"sfixed32Value":-1,"fixed64Value":"2","sfixed64Value":"-2","sint64Value":"3","bytesValue":"-_8","color":"RED","aliased":2,"optionalInt":0,"optionalString":"","optionalColor":0}`,
	`{"sub":{"sub":{"strings":["a","b",""]}},"ints":[1,2,3],"longs":["1",2],"doubles":[1,2.5,"Infinity"],"bools":[true,false],"blobs":["AQ==","_w"],"colors":["RED",2],"smalls":[{},{"id":1,"tags":["x"]}],"unpacked":[1,2]}`,
	`{"labels":{"a":"b","c":""},"byInt":{"-1":"x"},"byLong":{"5":"GREEN"},"byBool":{"true":1.5,"false":0},"byUlong":{"1":{"id":"2"}},"durations":{"d":"1.5s"},"byFixed":{"7":"AQ=="}}`,
	`{"time":"2020-01-02T03:04:05.123456789+02:00","times":["1970-01-01T00:00:00Z"],"duration":"-0.5s","mask":"a.b,cD","struct":{"a":[1,{"b":null}]},"value":null,"list":[1,"x"],"any":{"@type":"type.googleapis.com/everything.Small","id":1},"empty":{}}`,
	`{"boolWrapper":false,"int32Wrapper":0,"int64Wrapper":"1","uint32Wrapper":2,"uint64Wrapper":"3","floatWrapper":1.5,"doubleWrapper":-0.0,"stringWrapper":"s","bytesWrapper":"AQ"}`,
	`{"choiceSmall":{"a":"x"},"otherBool":false}`, `{"choiceTime":"1970-01-01T00:00:01Z"}`, `{"choiceNull":null}`,
	`{"stringValue":"\u0000\u001f\b\f\n\r\t\/\"\\\u20AC\uD83D\uDE00 after","labels":{"k\u0031":"v","1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"","13":""}}`,
	`{"labels":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"","13":"","1":""}}`,
	`{"nope":{"a":[true,false,null,-1.5e-3,"\ud83d\ude00",{},[]],"b":{"c":"d"}},"boolValue":true}`,
	`{"choiceInt":1,"choiceString":"x"}`, `{"labels":{"a":"1","a":"2"}}`, `{"int32Value":1e2,"nope":[{"a":1e5,"b":"\u0000"}],"color":"NOPE"}`,
	`{"stringValue":"b"}x`, `{} {}`, `null`, `[]`, `{"int32Value":01}`, `{"int32Value":1e}`, `{"ints":[1,]}`, `{"ints":[null]}`, "{\"stringValue\":\"\xff\"}",
	" \n{ \"other name\" :\t\"x\" , \"far\" : 1 } ",
}

// FuzzBody compares the direct engine with protojson: what it takes, protojson
// takes, and to the same message.
func FuzzBody(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b), byte(8))
		f.Add([]byte(b), byte(0))
	}
	var methods [2]*transcode.Method
	for i := range methods {
		methods[i] = compile(f, echo, transcode.Binding{Body: "*"}, options(byte(i*8)))
	}
	f.Fuzz(func(t *testing.T, body []byte, o byte) {
		m := methods[o>>3&1]
		slow, err := m.SlowBody(nil, body)
		checkPublic(t, err)
		direct, ok := m.DirectBody(nil, body)
		if ok {
			compareBodies(t, body, direct, slow, err)
		}
		got, err2 := m.AppendRequest(nil, transcode.Input{Body: body})
		checkPublic(t, err2)
		if !json.Valid(body) {
			// protojson takes some that is no JSON, as {"int32Value":1e}; we do not.
			if ok || err2 == nil && strings.Trim(string(body), " \t\r\n") != "" {
				t.Fatalf("%q: taken, though no JSON", body)
			}
			return
		}
		if blank := strings.Trim(string(body), " \t\r\n") == ""; !blank && (err == nil) != (err2 == nil) {
			t.Fatalf("%q: protojson says %v, AppendRequest %v", body, err, err2)
		}
		if err2 == nil && len(slow) > 0 {
			compareBodies(t, body, got, slow, err)
		}
	})
}

func compareBodies(t *testing.T, body, direct, slow []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%q: the direct engine takes it, protojson says %v", body, errors.Unwrap(err))
	}
	d, s := decode(t, echo, direct), decode(t, echo, slow)
	if !proto.Equal(d, s) {
		t.Fatalf("%q:\ndirect %s\nslow   %s", body, show(d), show(s))
	}
}

// checkPublic checks that an error may be shown.
func checkPublic(t *testing.T, err error) {
	t.Helper()
	var bad *transcode.Error
	if err == nil {
		return
	}
	if !errors.As(err, &bad) {
		t.Fatalf("err = %v, want an *Error", err)
	}
	text := err.Error()
	if len(text) > 400 || strings.Contains(text, "proto:") || strings.ContainsAny(text, "\n\r\x00") {
		t.Fatalf("not fit to be shown: %q", text)
	}
}

// fieldBodies are fields that a body may be.
var fieldBodies = []string{"sub", "sub.other_sub", "int64_value", "string_value", "float_value", "bytes_value", "color", "optional_int", "choice_int", "choice_null", "ints", "smalls", "strings", "labels", "by_ulong", "time", "struct", "value", "any", "string_wrapper", "sub.labels"}

// FuzzFieldBody does the same for bodies that are one field.
func FuzzFieldBody(f *testing.F) {
	for i, b := range []string{`{"stringValue":"x"}`, `{}`, `"-5"`, `"x"`, `1.5`, `"AQ=="`, `"RED"`, `0`, `1`, `null`, `[1,2]`, `[{"id":1}]`, `["a"]`, `{"a":"b"}`, `{"1":{}}`, `"1970-01-01T00:00:00Z"`, `{"a":1}`, `null`, `{"@type":"x"}`, `"x"`, `{"a":"b"}`, `1,"stringValue":"x"`} {
		f.Add(byte(i), []byte(b))
	}
	methods := make([]*transcode.Method, len(fieldBodies))
	for i, field := range fieldBodies {
		methods[i] = compile(f, echo, transcode.Binding{Body: field}, defaults)
	}
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		m := methods[int(which)%len(methods)]
		slow, err := m.SlowBody(nil, body)
		checkPublic(t, err)
		if direct, ok := m.DirectBody(nil, body); ok {
			compareBodies(t, body, direct, slow, err)
		}
	})
}

// TestDirect guards against the direct engine quietly leaving to the slow one
// what it is there for.
func TestDirect(t *testing.T) {
	body := compile(t, echo, transcode.Binding{Body: "*"}, defaults)
	for _, text := range bodies[:11] { // the valid ones
		if _, ok := body.DirectBody(nil, []byte(text)); !ok {
			t.Errorf("body %s left to the slow engine", text)
		}
	}
}

package transcode_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// encode writes a method's response message.
func encode(t testing.TB, name protoreflect.FullName, text string) []byte {
	t.Helper()
	msg := dynamicpb.NewMessage(method(t, name).Output())
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: transcode.Linked(testSchema().types)}).Unmarshal([]byte(text), msg); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	wire, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func TestAppendResponse(t *testing.T) {
	tests := []struct {
		name    string
		method  protoreflect.FullName // echo when empty
		options config.JSON
		field   string
		message string // as JSON
		want    string
	}{
		{name: "compact, in the order of declaration", message: `{"boolValue":true,"stringValue":"a, b","ints":[1,2],"labels":{"b":"2","a":"1"},"sub":{"int64Value":"9007199254740993"}}`, want: `{"stringValue":"a, b","boolValue":true,"sub":{"int64Value":"9007199254740993"},"ints":[1,2],"labels":{"a":"1","b":"2"}}`},
		{name: "proto names", options: config.JSON{UseProtoNames: true}, message: `{"boolValue":true,"other name":"x"}`, want: `{"bool_value":true,"renamed":"x"}`},
		{name: "enums", message: `{"color":"RED","aliased":"UNO","colors":["GREEN","BELOW",77],"byLong":{"1":"RED"}}`, want: `{"color":"RED","aliased":"ONE","colors":["GREEN","BELOW",77],"byLong":{"1":"RED"}}`},
		{name: "64-bit integers as numbers", options: config.JSON{Int64AsNumbers: true}, message: `{"int64Value":"-9223372036854775808","uint64Value":"18446744073709551615","sfixed64Value":"1","longs":["1","-2"],"int64Wrapper":"5","byLong":{"1":"RED"}}`, want: `{"int64Value":-9223372036854775808,"sfixed64Value":1,"uint64Value":18446744073709551615,"longs":[1,-2],"byLong":{"1":"RED"},"int64Wrapper":5}`},
		{name: "64-bit integers as numbers, unset", method: "everything.Service.EchoSmall", options: config.JSON{Int64AsNumbers: true, EmitDefaults: true}, message: `{}`, want: `{"id":0,"name":"","tags":[]}`},
		{name: "enums as numbers", options: config.JSON{EnumsAsNumbers: true}, message: `{"color":"RED","aliased":"UNO","colors":["GREEN","BELOW",77],"byLong":{"1":"RED"}}`, want: `{"color":1,"aliased":1,"colors":[2,-1,77],"byLong":{"1":1}}`},
		{name: "emit defaults", method: "everything.Service.EchoSmall", options: config.JSON{EmitDefaults: true}, message: `{}`, want: `{"id":"0","name":"","tags":[]}`},
		{name: "emit defaults, inside", method: "everything.Service.EchoOrder", options: config.JSON{EmitDefaults: true}, message: `{"items":[{}]}`, want: `{"id":"0","customer":"","note":"","items":[{"sku":"","quantity":0,"price":0,"description":"","tags":[]}],"labels":{},"total":0,"status":"UNKNOWN","shipTo":null,"paid":false,"created":null}`},
		{name: "presence", message: `{"optionalInt":0,"choiceString":"","int32Wrapper":0,"sub":{}}`, want: `{"sub":{},"optionalInt":0,"choiceString":"","int32Wrapper":0}`},
		{name: "numbers", message: `{"floatValue":1.1,"doubleValue":1e-7,"doubles":["NaN","-Infinity",1e21,100000,-0.0],"uint64Value":"18446744073709551615","sint32Value":-5,"fixed32Value":7}`, want: `{"sint32Value":-5,"fixed32Value":7,"floatValue":1.1,"doubleValue":1e-7,"uint64Value":"18446744073709551615","doubles":["NaN","-Infinity",1e+21,100000,-0]}`},
		{name: "escapes", message: `{"stringValue":"\"\\/\b\f\n\r\t\u0000\u001f\u007f<>&\u2028ä€😀"}`, want: `{"stringValue":"\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f<>&\u2028ä€😀" + `"}`},
		{name: "bytes", message: `{"bytesValue":"-_8","blobs":["","AQ=="]}`, want: `{"bytesValue":"+/8=","blobs":["","AQ=="]}`},
		{name: "map order", message: `{"byInt":{"10":"a","9":"b","-1":"c"},"byBool":{"true":1,"false":0},"byUlong":{"18446744073709551615":{},"2":{"id":"1"}}}`, want: `{"byInt":{"-1":"c","9":"b","10":"a"},"byBool":{"false":0,"true":1},"byUlong":{"2":{"id":"1"},"18446744073709551615":{}}}`},
		{name: "well-known types", message: `{"time":"2020-01-02T03:04:05.120Z","duration":"-1.5s","mask":"a,bC.d","struct":{"a":[1,null,"x"]},"value":null,"list":[true],"any":{"@type":"type.googleapis.com/everything.Small","id":"1"},"empty":{},"stringWrapper":"s","int64Wrapper":"5","boolWrapper":false,"bytesWrapper":"AQ==","times":["1970-01-01T00:00:00Z"],"durations":{"a":"3s"}}`, want: `{"times":["1970-01-01T00:00:00Z"],"durations":{"a":"3s"},"time":"2020-01-02T03:04:05.120Z","duration":"-1.500s","mask":"a,bC.d","struct":{"a":[1,null,"x"]},"value":null,"list":[true],"any":{"@type":"type.googleapis.com/everything.Small","id":"1"},"empty":{},"boolWrapper":false,"int64Wrapper":"5","stringWrapper":"s","bytesWrapper":"AQ=="}`},
		{name: "whole message is a well-known type", method: "everything.Service.Nothing", message: `{"a":1}`, want: `{"a":1}`},
		{name: "group, extension, defaults", method: legacy, options: config.JSON{EmitDefaults: true}, message: `{"id":0,"Inner":{"yes":true},"[old.extra]":"e"}`, want: `{"id":0,"name":null,"count":null,"numbers":[],"inner":{"text":null,"yes":true},"kind":null,"subs":[],"byName":{},"any":null,"[old.extra]":"e"}`},

		{name: "field: message", field: "sub", message: `{"sub":{"boolValue":true},"boolValue":true}`, want: `{"boolValue":true}`},
		{name: "field: message that is not set", field: "sub.sub", message: `{}`, want: `{}`},
		{name: "field: defaults inside", field: "smalls", options: config.JSON{EmitDefaults: true}, message: `{"smalls":[{"id":1}]}`, want: `[{"id":"1","name":"","tags":[]}]`},
		{name: "field: list", field: "ints", message: `{"ints":[1,2]}`, want: `[1,2]`},
		{name: "field: empty list", field: "ints", message: `{}`, want: `[]`},
		{name: "field: map", field: "labels", message: `{"labels":{"b":"2","a":"1"}}`, want: `{"a":"1","b":"2"}`},
		{name: "field: empty map", field: "labels", message: `{}`, want: `{}`},
		{name: "field: string", field: "sub.string_value", message: `{"sub":{"stringValue":"x y"}}`, want: `"x y"`},
		{name: "field: string that is not set", field: "string_value", message: `{}`, want: `""`},
		{name: "field: 64-bit number", field: "int64_value", message: `{"int64Value":"9007199254740993"}`, want: `"9007199254740993"`},
		{name: "field: 64-bit number that is not set", field: "int64_value", message: `{}`, want: `"0"`},
		{name: "field: enum", field: "color", message: `{"color":2}`, want: `"GREEN"`},
		{name: "field: oneof member that is not set", field: "choice_int", message: `{}`, want: `0`},
		{name: "field: value that is not set", field: "value", message: `{}`, want: `null`},
		{name: "field: timestamp", field: "time", message: `{"time":"1970-01-01T00:00:01Z"}`, want: `"1970-01-01T00:00:01Z"`},
		{name: "field: renamed", field: "renamed", options: config.JSON{UseProtoNames: true}, message: `{"other name":"x"}`, want: `"x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = echo
			}
			m := compile(t, tt.method, transcode.Binding{ResponseBody: tt.field}, tt.options)
			got, err := m.AppendResponse([]byte("before"), encode(t, tt.method, tt.message))
			if err != nil {
				t.Fatalf("err = %v (%v)", err, errors.Unwrap(err))
			}
			if string(got) != "before"+tt.want {
				t.Errorf("\ngot  %s\nwant before%s", got, tt.want)
			}
		})
	}
}

func TestAppendResponseWire(t *testing.T) {
	str := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	varint := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	tests := []struct {
		name string
		wire []byte
		want string // empty: a *ResponseError
	}{
		{"singular field twice: the last", join(varint(2, 1), varint(2, 2)), `{"int32Value":2}`},
		{"message twice: merged", join(str(18, "\x10\x01"), str(18, "\x08\x01")), `{"sub":{"boolValue":true,"int32Value":1}}`},
		{"oneof twice: the last", join(varint(31, 1), str(30, "x")), `{"choiceString":"x"}`},
		{"list in pieces, packed and not", join(varint(41, 1), str(41, "\x02\x03"), varint(2, 9), varint(41, 4)), `{"int32Value":9,"ints":[1,2,3,4]}`},
		{"empty packed list", str(41, ""), `{}`},
		{"map key twice: the last", join(str(50, "\x0a\x01a\x12\x01x"), str(50, "\x0a\x01a\x12\x01y")), `{"labels":{"a":"y"}}`},
		{"map entry without key and value", str(50, ""), `{"labels":{"":""}}`},
		{"map entry with a message and no value", str(54, "\x08\x01"), `{"byUlong":{"1":{}}}`},
		{"unknown fields", join(varint(900, 1), str(901, "x"), varint(2, 9)), `{"int32Value":9}`},
		{"known field of another wire type", join(str(2, "x"), varint(1, 1)), `{"boolValue":true}`},
		{"explicit zeros", join(varint(2, 0), str(9, ""), varint(16, 0)), `{}`},
		{"64 bits in a 32-bit field", varint(2, 1<<32+5), `{"int32Value":5}`},
		{"bool of many bits", varint(1, 77), `{"boolValue":true}`},
		{"invalid UTF-8", str(9, "\xff"), ""},
		{"invalid UTF-8 in a map key", str(50, "\x0a\x01\xff"), ""},
		{"map key twice, of two wire types: the one of its own", str(56, "\x0d0000\x0a\x010"), `{"byFixed":{"808464432":""}}`},
		{"the same inside a Struct", str(63, "\x0a\x0b\x0a\x01a\x08\x00\x12\x04\x1a\x02hi"), `{"struct":{"a":"hi"}}`},
		{"truncated", []byte{0x4a, 5, 'x'}, ""},
		{"truncated inside", str(18, "\x4a\x05x"), ""},
		{"timestamp out of range", str(60, "\x10\xff\xff\xff\xff\xff\x01"), ""},
		{"Any of an unknown type", str(66, "\x0a\x08no/t.Ype"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := compile(t, echo, transcode.Binding{}, config.JSON{})
			got, err := m.AppendResponse([]byte("before"), tt.wire)
			if tt.want == "" {
				var bad *transcode.ResponseError
				if !errors.As(err, &bad) {
					t.Fatalf("got %s, err = %v, want a *ResponseError", got, err)
				}
				if strings.Contains(err.Error(), "proto:") || !strings.Contains(err.Error(), "everything.Everything") {
					t.Errorf("err = %v", err)
				}
				if string(got) != "before" {
					t.Errorf("appended %q beside the error", got)
				}
				return
			}
			if err != nil || string(got) != "before"+tt.want {
				t.Errorf("got %s, err = %v, want before%s", got, err, tt.want)
			}
		})
	}
}

func TestAppendResponseTooLarge(t *testing.T) {
	order := compile(t, "everything.Service.EchoOrder", transcode.Binding{}, defaults)
	items := method(t, "everything.Service.EchoOrder").Output().Fields().ByName("items").Number()
	empty := protowire.AppendBytes(protowire.AppendTag(nil, items, protowire.BytesType), nil)
	many := bytes.Repeat(empty, 5<<18) // 2.5 MiB; 61 bytes each as JSON
	for name, wire := range map[string][]byte{
		"direct": many,
		"slow":   append(slices.Clip(many), "\x08\x01\x08\x01"...), // a singular field twice
	} {
		t.Run(name, func(t *testing.T) {
			got, err := order.AppendResponse([]byte("before"), wire)
			var bad *transcode.ResponseError
			if !errors.Is(err, transcode.ErrResponseTooLarge) || !errors.As(err, &bad) {
				t.Errorf("err = %v, want ErrResponseTooLarge", err)
			}
			if string(got) != "before" {
				t.Errorf("%d bytes beside the error", len(got))
			}
			if got, err := order.AppendResponse(nil, wire[len(wire)/4*3-len(wire)/4*3%2:]); err != nil {
				t.Errorf("a quarter of it: %v, %d bytes", err, len(got))
			}
		})
	}
}

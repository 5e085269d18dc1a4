package transcode_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// maskOf are the paths of a request's mask, and whether there is one.
func maskOf(msg *dynamicpb.Message, field protoreflect.Name) (paths []string, ok bool) {
	fd := msg.Descriptor().Fields().ByName(field)
	mask := msg.Get(fd).Message()
	list := mask.Get(mask.Descriptor().Fields().ByName("paths")).List()
	for i := range list.Len() {
		paths = append(paths, list.Get(i).String())
	}
	return paths, msg.Has(fd)
}

func TestUpdateMask(t *testing.T) {
	const none = "none"
	tests := []struct {
		name    string
		binding transcode.Binding
		body    string
		query   string
		vars    []string
		want    string // joined by spaces
	}{
		{name: "fields", body: `{"stringValue":"x","int32_value":0,"ints":[1],"labels":{"a":"b"}}`, want: "int32_value ints labels string_value"},
		{name: "inside", body: `{"sub":{"sub":{"boolValue":true},"color":1},"choiceSmall":{"id":1}}`, want: "choice_small.id sub.color sub.sub.bool_value"},
		{name: "nulls", body: `{"stringValue":null,"sub":null}`, want: "string_value sub"},
		{name: "empty message", body: `{"sub":{},"empty":{}}`, want: "empty sub"},
		{name: "lists and maps are whole", body: `{"smalls":[{"id":1}],"byUlong":{"1":{"id":2}}}`, want: "by_ulong smalls"},
		{name: "well-known types", body: `{"time":"2020-01-01T00:00:00Z","duration":"1s","stringWrapper":"x","list":[{"a":1}],"any":{"@type":"t/everything.Small","id":1}}`, want: "any duration list string_wrapper time"},
		{name: "JSON is by its names", body: `{"struct":{"a":{"b":1,"c":{}},"d":[{"e":1}]},"value":{"f":null}}`, want: "struct.a.b struct.a.c struct.d value.f"},
		{name: "nothing", body: `{}`, want: ""},
		{name: "no body", body: ``, want: none},
		{name: "unknown fields are left out", body: `{"nope":1,"sub":{"nope":{"boolValue":1}}}`, want: "sub"},
		{name: "the query's wins", body: `{"stringValue":"x"}`, query: "mask=a.b,c", want: "a.b c"},
		{name: "the query's paths win", body: `{"stringValue":"x"}`, query: "mask.paths=a", want: "a"},
		{name: "the path's wins", binding: transcode.Binding{Vars: []string{"mask"}}, body: `{"stringValue":"x"}`, vars: []string{"a"}, want: "a"},
		{name: "whole body", binding: transcode.Binding{Body: "*"}, body: `{"stringValue":"x"}`, want: none},
		{name: "body is a list", binding: transcode.Binding{Body: "smalls"}, body: `[{}]`, want: none},
		{name: "body is the mask", binding: transcode.Binding{Body: "mask"}, body: `"x"`, want: "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.binding.Body == "" {
				tt.binding.Body = "sub"
			}
			tt.binding.UpdateMask = true
			m := compile(t, echo, tt.binding, defaults)
			wire, err := m.AppendRequest(nil, transcode.Input{Body: []byte(tt.body), Query: tt.query, Vars: tt.vars})
			if err != nil {
				t.Fatal(err)
			}
			paths, ok := maskOf(decode(t, echo, wire), "mask")
			got := strings.Join(paths, " ")
			if !ok {
				got = none
			}
			if got != tt.want {
				t.Errorf("mask %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("not asked for", func(t *testing.T) {
		wire, err := compile(t, echo, transcode.Binding{Body: "sub"}, defaults).AppendRequest(nil, transcode.Input{Body: []byte(`{"boolValue":true}`)})
		if _, ok := maskOf(decode(t, echo, wire), "mask"); ok || err != nil {
			t.Errorf("filled all the same; err = %v", err)
		}
	})
}

// A long name around many fields would make a mask of the product of their sizes.
func TestUpdateMaskIsBounded(t *testing.T) {
	m := compile(t, echo, transcode.Binding{Body: "sub", UpdateMask: true}, defaults)
	var body bytes.Buffer
	body.WriteString(`{"struct":{"` + strings.Repeat("x", 1<<20) + `":{"`)
	body.WriteString(strings.Repeat("y", 1<<20) + `":1}}}`)
	_, err := m.AppendRequest(nil, transcode.Input{Body: body.Bytes()})
	if err == nil || !strings.Contains(err.Error(), "mask: the mask of what the body sets would be too large") {
		t.Errorf("err = %v", err)
	}
}

// TestMadeMasks compares masks of bodies made at random with grpc-gateway's
// FieldMaskFromRequestBody, which refuses some that are good to the body's reader.
func TestMadeMasks(t *testing.T) {
	compared := 0
	compare := madeMasks(t, &compared)
	for seed := range uint64(5_000) {
		compare(t, seed)
	}
	if compared < 1_000 {
		t.Errorf("only %d masks compared", compared)
	}
}

// FuzzMadeMask does the same for as long as one likes.
func FuzzMadeMask(f *testing.F) {
	compared := 0
	compare := madeMasks(f, &compared)
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		for i := range uint64(100) {
			compare(t, seed+i<<32)
		}
	})
}

func madeMasks(tb testing.TB, compared *int) func(*testing.T, uint64) {
	m := compile(tb, echo, transcode.Binding{Body: "sub", UpdateMask: true}, options(0))
	md := method(tb, echo).Input()
	return func(t *testing.T, seed uint64) {
		t.Helper()
		j := jsonMaker{rand.New(rand.NewPCG(seed, 2)), testSchema().types}
		body := j.body(md)
		wire, err := m.AppendRequest(nil, transcode.Input{Body: body})
		if err != nil || len(bytes.TrimSpace(body)) == 0 {
			return
		}
		want, err := runtime.FieldMaskFromRequestBody(bytes.NewReader(body), dynamicpb.NewMessage(md))
		if err != nil {
			// encoding/json, and an Any without type.
			if text := err.Error(); !strings.Contains(text, "json: cannot unmarshal number") && !strings.Contains(text, "@type") {
				t.Fatalf("%s: grpc-gateway says %v", body, err)
			}
			return
		}
		*compared++
		if got, ok := maskOf(decode(t, echo, wire), "mask"); !ok || !slices.Equal(got, want.GetPaths()) {
			t.Fatalf("%s:\ngot  %q\nwant %q", body, got, want.GetPaths())
		}
	}
}

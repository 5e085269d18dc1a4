package transcode_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// nest puts content inside n messages of a kind: head is what comes before one
// of a size, tail what comes after.
func nest(content []byte, n int, head func(size int) []byte, tail string) []byte {
	heads := make([][]byte, n)
	size := len(content)
	for i := range heads {
		heads[n-1-i] = head(size)
		size += len(heads[n-1-i]) + len(tail)
	}
	wire := append(bytes.Join(heads, nil), content...)
	return append(wire, strings.Repeat(tail, n)...)
}

// Heads for nest.
func inField(num protowire.Number) func(int) []byte {
	return func(size int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), uint64(size))
	}
}

func inList(size int) []byte { // a Value that is a ListValue of one Value
	inner := inField(1)(size)
	return append(inField(6)(len(inner)+size), inner...)
}

// inEntryOfPieces is the head of a map's entry, whose value has another piece of two bytes as its tail.
func inEntryOfPieces(size int) []byte {
	inner := inField(2)(size)
	return append(inField(40)(len(inner)+size+2), inner...)
}

func inAny(size int) []byte {
	return append(field(1, []byte("/google.protobuf.Any")), inField(2)(size)...)
}

func inGroup(int) []byte { return []byte(groupStart) }

const groupStart, groupEnd = "\x53", "\x54" // field 10 of Corner

func field(num protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), content)
}

// TestResponseDepth: messages nest as deeply as protobuf-go reads them, Any
// counted; the stack is not what ends it.
func TestResponseDepth(t *testing.T) {
	anything := compile(t, "everything.Service.Anything", transcode.Binding{}, config.JSON{})
	corners := compile(t, corner, transcode.Binding{}, config.JSON{})
	for _, tt := range []struct {
		name   string
		method *transcode.Method
		wire   []byte
		ok     bool
	}{
		{"lists", anything, nest([]byte("\x08\x00"), 4999, inList, ""), true},
		{"too many lists", anything, nest([]byte("\x08\x00"), 5001, inList, ""), false},
		{"Any", corners, field(60, nest(nil, 9000, inAny, "")), true},
		{"too many Any", corners, field(60, nest(nil, 10_001, inAny, "")), false},
		{"groups", corners, nest([]byte("\x28\x01"), 100, inGroup, groupEnd), true},
		{"too many groups", corners, nest([]byte("\x28\x01"), 101, inGroup, groupEnd), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.method.AppendResponse(nil, tt.wire)
			if (err == nil) != tt.ok {
				t.Errorf("%d bytes, err = %v (%v)", len(got), err, errors.Unwrap(err))
			}
		})
	}
}

// TestResponseWork: what is legal but nasty takes no more than a moment.
func TestResponseWork(t *testing.T) {
	m := compile(t, corner, transcode.Binding{}, defaults)
	payload := field(3, bytes.Repeat([]byte("x"), 1<<20))
	for _, tt := range []struct {
		name string
		wire []byte
	}{
		{"messages in pieces inside messages in pieces", nest(payload, 900, inField(12), "\x62\x00")},
		{"map values in pieces", field(40, bytes.Repeat(field(2, payload[:1000]), 4000))},
		{"a map's large value and many empty pieces of it", field(40, append(field(2, bytes.Repeat([]byte("\x28\x01"), 1<<16)), bytes.Repeat([]byte("\x12\x00"), 1<<18)...))},
		{"map values in pieces inside map values in pieces", nest([]byte("\x28\x01"), 40, inEntryOfPieces, "\x12\x00")},
		{"oneof members that alternate", bytes.Repeat(append(field(50, payload[:1000]), field(52, nil)...), 4000)},
		{"out of order at each level", nest(payload, 900, inField(12), "\x20\x01")},
		{"groups around much", nest(bytes.Repeat([]byte("\x28\x01"), 1<<16), 90, inGroup, groupEnd)},
		{"many entries of one key", bytes.Repeat(field(42, field(2, payload[:1000])), 4000)},
		{"many unknown fields", bytes.Repeat([]byte("\xb8\x3e\x01"), 1<<20)},
		{"a mask's many unknown fields", field(60, append(field(1, payload[:1<<18]), bytes.Repeat([]byte("\x18\x01"), 1<<20)...))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			_, err := m.AppendResponse(nil, tt.wire)
			if took := time.Since(begun); took > 10*time.Second { // some ms; the race detector and busy machines may take more
				t.Errorf("%v for %d bytes (err = %v)", took, len(tt.wire), err)
			}
		})
	}
}

// TestResponseMemory: what is kept of the messages that are open is bounded, however many fields they may have.
func TestResponseMemory(t *testing.T) {
	const limit = 256 << 20
	fdp := &descriptorpb.FileDescriptorProto{
		Name: proto.String("wide.proto"), Package: proto.String("wide"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("M"), InputType: proto.String(".wide.M"), OutputType: proto.String(".wide.M")},
		}}},
	}
	for i := range int32(2000) {
		fdp.MessageType[0].Field = append(fdp.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprint("m", i)), Number: proto.Int32(i + 1), TypeName: proto.String(".wide.M"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		})
	}
	file, err := protodesc.NewFile(fdp, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := transcode.Compile(file.Services().Get(0).Methods().Get(0), transcode.Binding{}, config.JSON{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	outOfOrder := func(size int) []byte { return append(field(2, nil), inField(1)(size)...) }
	if _, err := m.AppendResponse(nil, nest(nil, 1000, outOfOrder, "")); err != nil {
		t.Error(err, errors.Unwrap(err))
	}
	wire := nest(nil, 9900, outOfOrder, "")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = m.AppendResponse(nil, wire)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > limit {
		t.Errorf("err = %v, %d bytes allocated", err, got)
	}
}

// TestResponseMemoryOfMaps: entries that others replace take memory only for a while.
func TestResponseMemoryOfMaps(t *testing.T) {
	m := compile(t, corner, transcode.Binding{}, config.JSON{})
	var wire []byte
	for i := range 1 << 19 {
		wire = append(wire, field(44, append([]byte{0x08, byte(i % 100)}, field(2, []byte{byte(i)})...))...)
	}
	var want []string
	for i := range 100 {
		n := 1<<19 - 1
		for n%100 != i {
			n--
		}
		want = append(want, fmt.Sprintf(`"%d":"%s"`, i, base64.StdEncoding.EncodeToString([]byte{byte(n)})))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := m.AppendResponse(nil, wire)
	runtime.ReadMemStats(&after)
	if err != nil || string(got) != `{"byUint":{`+strings.Join(want, ",")+"}}" {
		t.Errorf("%.300s, err = %v", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(wire)) {
		t.Errorf("%d bytes allocated for %d", n, len(wire))
	}
}

// TestStatusWork does the same for details.
func TestStatusWork(t *testing.T) {
	many := nest(field(1, bytes.Repeat([]byte("x"), 1<<19)), 2000, inAny, "")
	got := transcode.AppendStatus(nil, &status.Status{Code: 2, Message: "m", Details: []*anypb.Any{{TypeUrl: "x/google.protobuf.Any", Value: many}}}, nil)
	if !strings.HasPrefix(string(got), `{"code":2,"message":"m","details":[{"@type":"x/google.protobuf.Any","value":"`) {
		t.Errorf("%.200s", got)
	}
	few := nest(nil, 5, inAny, "")
	got = transcode.AppendDetail(nil, &anypb.Any{TypeUrl: "x/google.protobuf.Any", Value: few}, nil)
	if want := `{"@type":"x/google.protobuf.Any","value":` + strings.Repeat(`{"@type":"/google.protobuf.Any","value":`, 5) + "{}" + strings.Repeat("}", 6); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

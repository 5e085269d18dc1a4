package transcode_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// The same work done by rpcgate, by protojson with generated types (what
// generated gateways do) and by protojson with dynamicpb. The message is a
// generated one, google.rpc.Help and google.rpc.ErrorInfo, so that all can.

// service has the generated messages as its own.
func benchMessages() map[string]proto.Message {
	info := &errdetails.ErrorInfo{Reason: "TOKEN_INVALID", Domain: "rpcgate.example.com", Metadata: map[string]string{"service": "orders", "consumer": "projects/12345"}}
	help := &errdetails.Help{}
	for i := range 24 {
		help.Links = append(help.Links, &errdetails.Help_Link{
			Description: fmt.Sprintf("Link %d: %s", i, strings.Repeat("what there is to know about it, ", 3)),
			Url:         fmt.Sprintf("https://example.com/docs/%d/page?section=%d", i, i),
		})
	}
	return map[string]proto.Message{"small": info, "medium": help}
}

// selfMethod is a method that takes and gives one message type.
type selfMethod struct {
	protoreflect.MethodDescriptor
	md protoreflect.MessageDescriptor
}

func (m selfMethod) Input() protoreflect.MessageDescriptor  { return m.md }
func (m selfMethod) Output() protoreflect.MessageDescriptor { return m.md }
func (m selfMethod) FullName() protoreflect.FullName        { return "bench.Service.Echo" }

func BenchmarkRequest(b *testing.B) {
	for name, msg := range benchMessages() {
		md := msg.ProtoReflect().Descriptor()
		m, err := transcode.Compile(selfMethod{md: md}, transcode.Binding{Body: "*"}, defaults, nil)
		if err != nil {
			b.Fatal(err)
		}
		body, err := protojson.Marshal(msg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/rpcgate", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				if buf, err = m.AppendRequest(buf[:0], transcode.Input{Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
		through := func(newMessage func() proto.Message) func(*testing.B) {
			return func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				var buf []byte
				for b.Loop() {
					v := newMessage()
					if err := protojson.Unmarshal(body, v); err != nil {
						b.Fatal(err)
					}
					if buf, err = (proto.MarshalOptions{}).MarshalAppend(buf[:0], v); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.Run(name+"/generated", through(func() proto.Message { return msg.ProtoReflect().New().Interface() }))
		b.Run(name+"/dynamicpb", through(func() proto.Message { return dynamicpb.NewMessage(md) }))
	}
}

func BenchmarkResponse(b *testing.B) {
	for name, msg := range benchMessages() {
		md := msg.ProtoReflect().Descriptor()
		m, err := transcode.Compile(selfMethod{md: md}, transcode.Binding{}, defaults, nil)
		if err != nil {
			b.Fatal(err)
		}
		wire, err := proto.Marshal(msg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/rpcgate", func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				if buf, err = m.AppendResponse(buf[:0], wire); err != nil {
					b.Fatal(err)
				}
			}
		})
		through := func(newMessage func() proto.Message) func(*testing.B) {
			return func(b *testing.B) {
				b.SetBytes(int64(len(wire)))
				b.ReportAllocs()
				var buf []byte
				for b.Loop() {
					v := newMessage()
					if err := proto.Unmarshal(wire, v); err != nil {
						b.Fatal(err)
					}
					if buf, err = (protojson.MarshalOptions{EmitUnpopulated: true}).MarshalAppend(buf[:0], v); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.Run(name+"/generated", through(func() proto.Message { return msg.ProtoReflect().New().Interface() }))
		b.Run(name+"/dynamicpb", through(func() proto.Message { return dynamicpb.NewMessage(md) }))
	}
}

// BenchmarkParameters: a GET with a path variable and a query, no body.
func BenchmarkParameters(b *testing.B) {
	m := compile(b, "everything.Service.EchoOrder", transcode.Binding{Vars: []string{"id"}}, defaults)
	in := transcode.Input{Query: "customer=acme&status=OPEN&ship_to.city=Bern&labels[a]=b&paid=true", Vars: []string{"12345"}}
	for _, bb := range []struct {
		name string
		in   transcode.Input
	}{{"path", transcode.Input{Vars: in.Vars}}, {"path and query", in}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			var err error
			for b.Loop() {
				if buf, err = m.AppendRequest(buf[:0], bb.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

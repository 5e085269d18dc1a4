package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// engines are compiled methods for each message type.
type engines struct {
	types *dynamicpb.Types
	// strict refuse unknown fields in JSON, lenient ignore them.
	strict, lenient map[string]*transcode.Method
}

// suiteFiles have the messages that the suite's requests name.
func suiteFiles() []string {
	return []string{
		"google/protobuf/test_messages_proto2.proto",
		"google/protobuf/test_messages_proto3.proto",
		"google/protobuf/test_messages_proto2_editions.proto",
		"google/protobuf/test_messages_proto3_editions.proto",
		"google/protobuf/test_messages_edition2023.proto",
	}
}

func newEngines(protos string) (*engines, error) {
	source := &protocompile.SourceResolver{ImportPaths: []string{protos}}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(source)}
	compiled, err := c.Compile(context.Background(), suiteFiles()...)
	if err != nil {
		return nil, err
	}
	files := new(protoregistry.Files)
	var names []protoreflect.FullName
	for _, f := range compiled {
		if err := files.RegisterFile(f); err != nil {
			return nil, err
		}
		for i := range f.Messages().Len() {
			names = append(names, f.Messages().Get(i).FullName())
		}
	}
	service, err := echoService(compiled, files, names)
	if err != nil {
		return nil, err
	}
	e := &engines{types: dynamicpb.NewTypes(files)}
	if e.strict, err = e.compile(service, config.JSON{}); err != nil {
		return nil, err
	}
	if e.lenient, err = e.compile(service, config.JSON{DiscardUnknown: true}); err != nil {
		return nil, err
	}
	return e, nil
}

// echoService is a service with a method for each message type: transcode
// compiles methods.
func echoService[F protoreflect.FileDescriptor](compiled []F, files *protoregistry.Files, names []protoreflect.FullName) (protoreflect.ServiceDescriptor, error) {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\npackage testee;\n")
	for _, f := range compiled {
		fmt.Fprintf(&b, "import %q;\n", f.Path())
	}
	b.WriteString("service Echo {\n")
	for i, name := range names {
		fmt.Fprintf(&b, "rpc M%d(.%s) returns (.%s);\n", i, name, name)
	}
	b.WriteString("}\n")
	c := protocompile.Compiler{Resolver: protocompile.CompositeResolver{
		&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"testee.proto": b.String()})},
		protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
			fd, err := files.FindFileByPath(path)
			return protocompile.SearchResult{Desc: fd}, err
		}),
	}}
	linked, err := c.Compile(context.Background(), "testee.proto")
	if err != nil {
		return nil, err
	}
	return linked[0].Services().Get(0), nil
}

// compile gives the methods by their message's name.
func (e *engines) compile(service protoreflect.ServiceDescriptor, o config.JSON) (map[string]*transcode.Method, error) {
	c := transcode.NewCompiler(o, e.types)
	methods := make(map[string]*transcode.Method)
	for i := range service.Methods().Len() {
		md := service.Methods().Get(i)
		m, err := c.Compile(md, transcode.Binding{Body: "*"})
		if err != nil {
			return nil, err
		}
		methods[string(md.Input().FullName())] = m
	}
	return methods, nil
}

// answer does what a request asks.
func (e *engines) answer(q request) answer {
	method := e.strict[q.Type]
	if q.DiscardUnknown {
		method = e.lenient[q.Type]
	}
	switch {
	case q.Type == "conformance.FailureSet":
		return protobufPayload(nil) // asked first: no failure is expected
	case q.Format != formatProtobuf && q.Format != formatJSON, q.Output != formatProtobuf && q.Output != formatJSON:
		return skipped("protobuf and JSON alone")
	case method == nil:
		return runtimeError(fmt.Errorf("unknown message type %q", q.Type))
	}
	wire := q.Payload
	if q.Format == formatJSON {
		var err error
		if wire, err = method.AppendRequest(nil, transcode.Input{Body: q.Payload}); err != nil {
			return parseError(err)
		}
	}
	if q.Output == formatJSON {
		out, err := method.AppendResponse(nil, wire)
		if err == nil {
			return jsonPayload(out)
		}
		// Which of the two it is, the writer does not say.
		if _, bad := e.roundTrip(q.Type, wire); bad != nil {
			return parseError(err)
		}
		return serializeError(err)
	}
	out, err := e.roundTrip(q.Type, wire)
	if err != nil {
		return parseError(err)
	}
	return protobufPayload(out)
}

// roundTrip reads and writes a message. The order of what is written is fixed:
// the suite compares oneofs in pieces.
func (e *engines) roundTrip(name string, wire []byte) ([]byte, error) {
	t, err := e.types.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	msg := t.New().Interface()
	if err := (proto.UnmarshalOptions{Resolver: e.types}).Unmarshal(wire, msg); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}

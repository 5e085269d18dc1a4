package integration_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// clientsBackend does what the clients in other languages ask of it: a
// request's text says how the call ends, its texts are the stream's messages.
type clientsBackend struct {
	*testbackend.Server
	waited chan waitedCall // one for each call that waited for its end
}

// waitedCall is a call that its caller ended.
type waitedCall struct {
	method string
	budget time.Duration // until its deadline when it came; 0: it had none
}

func startClientsBackend(t *testing.T) *clientsBackend {
	t.Helper()
	b := &clientsBackend{Server: testbackend.Start(t), waited: make(chan waitedCall, 100)}
	b.Handle("Echo/Unary", b.unary)
	b.Handle("Echo/ServerStream", b.serverStream)
	b.Handle("Echo/ClientStream", b.clientStream)
	return b
}

func (b *clientsBackend) unary(s *testbackend.Stream) error {
	request, err := s.Recv()
	if err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(s.Context())
	s.SetHeader(metadata.MD{"x-header": md["x-header"], "x-raw-bin": md["x-raw-bin"]})
	if err := b.end(s, "unary", b.text(request)); err != nil {
		return err
	}
	return s.Send(request)
}

func (b *clientsBackend) serverStream(s *testbackend.Stream) error {
	request, err := s.Recv()
	if err != nil {
		return err
	}
	for _, text := range b.texts(request) {
		if err := s.Send(b.shapes(text)); err != nil {
			return err
		}
	}
	return b.end(s, "server stream", b.text(request))
}

// clientStream answers with the texts of all messages.
func (b *clientsBackend) clientStream(s *testbackend.Stream) error {
	var texts []string
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.Send(b.shapes(strings.Join(texts, ",")))
		}
		if err != nil {
			return err
		}
		texts = append(texts, b.text(msg))
	}
}

// end is how a call ends: "fail" fails, "wait" waits for the caller to end it.
func (b *clientsBackend) end(s *testbackend.Stream, method, text string) error {
	s.SetTrailer(metadata.Pairs("x-trailer", "after"))
	switch text {
	case "fail":
		failed, err := status.New(codes.InvalidArgument, "text: 100% ungültig").WithDetails(&errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "text", Description: "must not be “fail”"}},
		})
		if err != nil {
			return err
		}
		return failed.Err()
	case "wait":
		call := waitedCall{method: method}
		if deadline, ok := s.Context().Deadline(); ok {
			call.budget = time.Until(deadline)
		}
		select {
		case <-s.Context().Done():
			b.waited <- call
		case <-b.Closing():
		}
		return status.FromContextError(s.Context().Err()).Err()
	}
	return nil
}

func (b *clientsBackend) shapes(text string) []byte {
	m := b.Message("Shapes")
	m.Set(m.Descriptor().Fields().ByName("text"), protoreflect.ValueOfString(text))
	data, _ := proto.Marshal(m) // a text always can
	return data
}

func (b *clientsBackend) text(data []byte) string {
	m := b.Message("Shapes")
	_ = proto.Unmarshal(data, m) // what is no message has no text
	return m.Get(m.Descriptor().Fields().ByName("text")).String()
}

func (b *clientsBackend) texts(data []byte) []string {
	m := b.Message("Shapes")
	_ = proto.Unmarshal(data, m)
	list := m.Get(m.Descriptor().Fields().ByName("texts")).List()
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = list.Get(i).String()
	}
	return texts
}

// protoset writes the backend's descriptors, and those of statuses with
// details, into a file.
func (b *clientsBackend) protoset(t *testing.T) string {
	t.Helper()
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(b.Protoset(), set); err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, file := range set.GetFile() {
		have[file.GetName()] = true
	}
	for _, file := range []protoreflect.FileDescriptor{
		anypb.File_google_protobuf_any_proto, spb.File_google_rpc_status_proto, errdetails.File_google_rpc_error_details_proto,
	} {
		if !have[file.Path()] {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
		}
	}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "clients.protoset")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ErrNoReflection says that a backend answers, but does not have the reflection
// service.
var ErrNoReflection = errors.New("the backend has no gRPC reflection service (neither v1 nor v1alpha): " +
	"register it there, or give the backend's descriptors as protoset or proto")

var errTooManyFiles = fmt.Errorf("the backend has more than %d files", maxReflectionFiles)

// What a backend may send as its descriptors. All of Google Cloud's public APIs
// together are some 40 MiB in 5,000 files. One message may be as large as gRPC
// clients take by default, since small parts of it cost far more memory than
// they have bytes; what an answer costs beside its bytes is counted too.
const (
	maxReflectionServices = 4096
	maxReflectionFiles    = 8192
	maxReflectionBytes    = 64 << 20
	maxReflectionMessage  = 4 << 20
	reflectionOverhead    = 512
	reflectionTimeout     = 30 * time.Second
)

// Reflect asks a backend for its descriptors by gRPC reflection, v1 and, if it
// doesn't have that, v1alpha. The backend serves the services that it lists.
//
// It copes with backends that cannot describe all they list: what is missing
// is left out, with a warning, as long as there is some service. It ends with
// ctx, and after 30 s at the latest. Its errors keep the status that the
// backend or the connection gave; for one without reflection it is
// [ErrNoReflection].
func Reflect(ctx context.Context, conn grpc.ClientConnInterface) (*Descriptors, error) {
	ctx, cancel := context.WithTimeout(ctx, reflectionTimeout)
	defer cancel() // ends the streams
	for _, method := range []string{
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
		// The same messages under the name they had first.
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	} {
		r := inquiry{known: make(map[string]bool), services: make(map[string]bool)}
		err := r.run(ctx, conn, method)
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("gRPC reflection: %w", err)
		}
		return r.descriptors()
	}
	return nil, ErrNoReflection
}

// An inquiry is one exchange: a question, an answer, the next question.
type inquiry struct {
	stream   grpc.ClientStream
	listed   []string
	files    []*descriptorpb.FileDescriptorProto
	known    map[string]bool // names of files that we have, or have asked for
	services map[string]bool // those that the files define
	bytes    int             // what the answers cost so far
	warnings []string        // maxWarnings at most
	unsaid   int             // warnings beyond them
}

func (r *inquiry) run(ctx context.Context, conn grpc.ClientConnInterface, method string) error {
	// The connection may well have the gateway's raw codec as its default.
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		grpc.ForceCodecV2(encoding.GetCodecV2(proto.Name)), grpc.MaxCallRecvMsgSize(maxReflectionMessage))
	if err != nil {
		return err
	}
	r.stream = stream
	if err := r.list(); err != nil {
		return err
	}
	for _, name := range r.listed {
		if r.services[name] {
			continue
		}
		err := r.fetch("service "+name, &reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
		})
		if err != nil {
			return err
		}
	}
	// Most servers send a file's imports with it, but they need not.
	for i := 0; i < len(r.files); i++ {
		for _, dep := range r.files[i].GetDependency() {
			if r.known[dep] {
				continue
			}
			r.known[dep] = true
			err := r.fetch("", &reflectionpb.ServerReflectionRequest{
				MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: dep},
			})
			if err != nil {
				return err
			}
		}
	}
	return stream.CloseSend()
}

func (r *inquiry) ask(q *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	// After io.EOF the stream has ended, and RecvMsg says why.
	if err := r.stream.SendMsg(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	a := new(reflectionpb.ServerReflectionResponse)
	if err := r.stream.RecvMsg(a); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the backend ended the stream without an answer")
		}
		return nil, err
	}
	return a, nil
}

func (r *inquiry) list() error {
	a, err := r.ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	if err != nil {
		return err
	}
	if e := a.GetErrorResponse(); e != nil {
		return status.Error(codes.Code(e.GetErrorCode()), clipped(e.GetErrorMessage()))
	}
	if a.GetListServicesResponse() == nil {
		return errors.New("the backend's answer does not list services")
	}
	seen := make(map[string]bool)
	for _, s := range a.GetListServicesResponse().GetService() {
		if name := s.GetName(); protoreflect.FullName(name).IsValid() && !seen[name] {
			if len(r.listed) == maxReflectionServices {
				return fmt.Errorf("the backend lists more than %d services", maxReflectionServices)
			}
			seen[name] = true
			r.listed = append(r.listed, name)
		}
	}
	return nil
}

// fetch asks for files and keeps them. If the backend cannot give them, that is
// a warning that names what, and none if that is empty.
func (r *inquiry) fetch(what string, q *reflectionpb.ServerReflectionRequest) error {
	if len(r.known) > maxReflectionFiles {
		return errTooManyFiles
	}
	a, err := r.ask(q)
	if err != nil {
		return err
	}
	if a.GetFileDescriptorResponse() == nil {
		if err := r.count(len(a.GetErrorResponse().GetErrorMessage())); err != nil {
			return err
		}
		if what != "" {
			reason := "the answer holds no file"
			if e := a.GetErrorResponse(); e != nil {
				reason = fmt.Sprintf("%s: %s", codes.Code(e.GetErrorCode()), clipped(e.GetErrorMessage()))
			}
			r.warn("%s is listed, but cannot be described: %s", clipped(what), reason)
		}
		return nil
	}
	for _, b := range a.GetFileDescriptorResponse().GetFileDescriptorProto() {
		if err := r.count(len(b)); err != nil {
			return err
		}
		if len(r.files) == maxReflectionFiles {
			return errTooManyFiles
		}
		f := new(descriptorpb.FileDescriptorProto)
		if err := unmarshalDescriptor(b, f); err != nil {
			r.warn("a file descriptor cannot be parsed: %v", err)
			continue
		}
		r.known[f.GetName()] = true
		for _, s := range f.GetService() {
			r.services[string(protoreflect.FullName(f.GetPackage()).Append(protoreflect.Name(s.GetName())))] = true
		}
		r.files = append(r.files, f)
	}
	return nil
}

// count adds one part of an answer to what may be kept.
func (r *inquiry) count(size int) error {
	if r.bytes += size + reflectionOverhead; r.bytes > maxReflectionBytes {
		return fmt.Errorf("the backend's descriptors are larger than %d MiB", maxReflectionBytes>>20)
	}
	return nil
}

func (r *inquiry) warn(format string, args ...any) {
	if len(r.warnings) == maxWarnings {
		r.unsaid++
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *inquiry) descriptors() (*Descriptors, error) {
	listed := make(map[protoreflect.FullName]bool, len(r.listed))
	for _, name := range r.listed {
		listed[protoreflect.FullName(name)] = true
	}
	d, err := newDescriptors(r.files, func(s protoreflect.ServiceDescriptor) bool { return listed[s.FullName()] }, false)
	if err != nil {
		return nil, fmt.Errorf("gRPC reflection: %w", err)
	}
	d.warnings = bounded(append(r.warnings, d.warnings...), r.unsaid)
	if len(d.services) == 0 && len(listed) > 0 {
		return nil, fmt.Errorf("gRPC reflection: none of the %d services that the backend lists can be described: %q",
			len(listed), d.warnings[:min(len(d.warnings), 3)])
	}
	return d, nil
}

package routes

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// The files that descriptors may import without bringing them along. Those
	// that are linked into every binary with gRPC are not repeated here.
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/api/httpbody"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// A linker turns file descriptors, in any order, into registered files. A file
// that cannot be linked is left out; a missing import is not by itself a fault,
// because most are there for options only: what it would have defined becomes a
// placeholder.
type linker struct {
	protos   map[string]*descriptorpb.FileDescriptorProto
	done     map[string]bool // false while a file's imports are being linked
	files    protoregistry.Files
	faults   []error
	missing  []string // "import X of file Y"; maxWarnings at most
	unsaid   int      // missing ones beyond them
	repeated []string
}

func link(protos []*descriptorpb.FileDescriptorProto) *linker {
	l := &linker{
		protos: make(map[string]*descriptorpb.FileDescriptorProto, len(protos)),
		done:   make(map[string]bool, len(protos)),
	}
	for _, p := range protos {
		if other, ok := l.protos[p.GetName()]; !ok {
			l.protos[p.GetName()] = p
		} else if !proto.Equal(other, p) {
			l.repeated = append(l.repeated, p.GetName())
		}
	}
	for _, p := range protos {
		l.link(p.GetName())
	}
	return l
}

func (l *linker) err() error { return errors.Join(l.faults...) }

func (l *linker) warnings() []string {
	var w []string
	for _, err := range l.faults {
		w = append(w, err.Error())
	}
	for _, name := range l.repeated {
		w = append(w, fmt.Sprintf("file %s is there twice, with different content; the first counts", name))
	}
	for _, m := range l.missing {
		w = append(w, m+" is not among the descriptors")
	}
	return w
}

func (l *linker) link(name string) {
	if _, ok := l.done[name]; ok {
		return
	}
	p, ok := l.protos[name]
	if !ok {
		if p = builtin(name); p == nil {
			return
		}
	}
	l.done[name] = false
	for _, dep := range p.GetDependency() {
		if done, ok := l.done[dep]; ok && !done {
			l.fault(name, fmt.Errorf("import cycle through %s", dep))
			return
		}
		l.link(dep)
		if _, err := l.files.FindFileByPath(dep); err != nil {
			if len(l.missing) == maxWarnings {
				l.unsaid++
				continue
			}
			l.missing = append(l.missing, fmt.Sprintf("import %s of file %s", clipped(dep), clipped(name)))
		}
	}
	l.done[name] = true
	f, err := protodesc.FileOptions{AllowUnresolvable: true}.New(p, &l.files)
	if err == nil {
		err = l.files.RegisterFile(f)
	}
	if err != nil {
		l.fault(name, err)
	}
}

func (l *linker) fault(file string, err error) {
	l.done[file] = true
	l.faults = append(l.faults, fmt.Errorf("file %s: %w", file, err))
}

// builtin gives a file that is compiled into this program, if it is one that
// anybody may import; it does not give those of services of our own.
func builtin(name string) *descriptorpb.FileDescriptorProto {
	f := builtinFile(name)
	if f == nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(f)
}

func builtinFile(name string) protoreflect.FileDescriptor {
	f, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return nil
	}
	if !slices.Contains([]protoreflect.FullName{"google.api", "google.protobuf", "google.rpc"}, f.Package()) {
		return nil
	}
	return f
}

// A completeness finds types that messages need and no file defines. It
// remembers the messages that lack nothing.
type completeness map[protoreflect.FullName]struct{}

// missing gives the name of a type that m needs and that is not there, or "".
func (c completeness) missing(m protoreflect.MessageDescriptor) protoreflect.FullName {
	visited := make(completeness)
	name := c.visit(m, visited)
	if name == "" {
		maps.Copy(c, visited)
	}
	return name
}

func (c completeness) visit(m protoreflect.MessageDescriptor, visited completeness) protoreflect.FullName {
	if m.IsPlaceholder() {
		return m.FullName()
	}
	if c.has(m) || visited.has(m) {
		return ""
	}
	visited[m.FullName()] = struct{}{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if e := f.Enum(); e != nil && e.IsPlaceholder() {
			return e.FullName()
		}
		if sub := f.Message(); sub != nil {
			if name := c.visit(sub, visited); name != "" {
				return name
			}
		}
	}
	return ""
}

func (c completeness) has(m protoreflect.MessageDescriptor) bool {
	_, ok := c[m.FullName()]
	return ok
}

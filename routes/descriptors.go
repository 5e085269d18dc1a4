// Package routes builds and matches the route table: which HTTP method and path,
// or gRPC method, leads to which method of which backend, and under which
// policy.
//
// It knows nothing of HTTP servers and connections. Descriptors come in through
// [LoadProtoset], [CompileProto] and [Reflect]; [Build] makes of them, and of
// the config, a [Table], which is never changed after that and may be used from
// many goroutines at once.
package routes

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptors are what one backend serves: its services, and the files that
// describe them, in a registry of their own, so that two backends may describe
// one name differently. They are not changed once made.
type Descriptors struct {
	files       *protoregistry.Files
	services    []protoreflect.ServiceDescriptor // by name
	types       *Types
	comments    map[protoreflect.FullName]string
	warnings    []string
	fingerprint [sha256.Size]byte
}

// Files gives the registry of all files, imported ones too.
func (d *Descriptors) Files() *protoregistry.Files { return d.files }

// Services gives the services that the backend serves, sorted by name. Of a
// service that only an imported file describes, the source decides: see
// [LoadProtoset], [CompileProto] and [Reflect].
func (d *Descriptors) Services() []protoreflect.ServiceDescriptor { return d.services }

// Types resolves the messages and extensions that the files define.
func (d *Descriptors) Types() *Types { return d.types }

// Warnings tell what was wrong with the descriptors, but could be left out.
func (d *Descriptors) Warnings() []string { return d.warnings }

// Comment gives what the sources say of a service, method, message, field,
// oneof, enum or enum value, by its full name: the comment before it, or else
// the one behind it. It is empty where there is none, or where the source of
// the descriptors leaves comments out, as most servers' reflection does.
func (d *Descriptors) Comment(name protoreflect.FullName) string { return d.comments[name] }

// Fingerprint is a hash, in hex, of all that a table takes from the
// descriptors. It ignores the order in which files came.
func (d *Descriptors) Fingerprint() string { return hex.EncodeToString(d.fingerprint[:]) }

// Equal tells whether a table built from other would be no different. Nil, for
// descriptors not yet there, equals only nil.
func (d *Descriptors) Equal(other *Descriptors) bool {
	if d == nil || other == nil {
		return d == other
	}
	return d.fingerprint == other.fingerprint
}

// newDescriptors links files, which it takes over and changes. serves chooses
// the services among all that the files define. What keeps a file from being
// linked is an error if strict, and else a warning.
func newDescriptors(files []*descriptorpb.FileDescriptorProto, serves func(protoreflect.ServiceDescriptor) bool, strict bool) (*Descriptors, error) {
	comments := takeComments(files)
	linked := link(files)
	if err := linked.err(); err != nil && strict {
		return nil, err
	}
	d := &Descriptors{
		files:    &linked.files,
		types:    newTypes(&linked.files),
		comments: comments,
		warnings: bounded(linked.warnings(), linked.unsaid),
	}
	d.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if s := f.Services().Get(i); serves(s) {
				d.services = append(d.services, s)
			}
		}
		return true
	})
	slices.SortFunc(d.services, func(a, b protoreflect.ServiceDescriptor) int {
		return cmp.Compare(a.FullName(), b.FullName())
	})
	var err error
	if d.fingerprint, err = fingerprint(linked.protos, d.services, comments); err != nil {
		return nil, err
	}
	return d, nil
}

const maxWarnings = 64

// bounded cuts off what a backend could make endless. More than the warnings
// given, unsaid ones may have been left out before.
func bounded(warnings []string, unsaid int) []string {
	if over := len(warnings) - maxWarnings; over > 0 {
		warnings, unsaid = warnings[:maxWarnings:maxWarnings], unsaid+over
	}
	for i, w := range warnings {
		warnings[i] = clipped(w)
	}
	if unsaid > 0 {
		warnings = append(warnings, fmt.Sprintf("and %d more", unsaid))
	}
	return warnings
}

// clipped bounds a text that a backend gave.
func clipped(s string) string {
	const longest = 512
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

func fingerprint(
	files map[string]*descriptorpb.FileDescriptorProto, services []protoreflect.ServiceDescriptor, comments map[protoreflect.FullName]string,
) (sum [sha256.Size]byte, err error) {
	chunks := make([][]byte, 0, len(files))
	for _, f := range files {
		b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(f)
		if err != nil {
			return sum, fmt.Errorf("marshal %s: %w", f.GetName(), err)
		}
		chunks = append(chunks, b)
	}
	slices.SortFunc(chunks, bytes.Compare)
	h := sha256.New()
	write := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	for _, c := range chunks {
		write(c)
	}
	for _, s := range services {
		write([]byte(s.FullName()))
	}
	for _, c := range sortedComments(comments) {
		write([]byte(c))
	}
	h.Sum(sum[:0])
	return sum, nil
}

package routes

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxComment is how many bytes of one comment are kept.
const maxComment = 8 << 10

// takeComments takes the comments out of files, and gives them by the full name
// of what they are about: a service, a method, a message, a field, a oneof, an
// enum or a value of one. The files are left without positions and comments,
// which are large, and which gRPC reflection must not pass on to callers.
func takeComments(files []*descriptorpb.FileDescriptorProto) map[protoreflect.FullName]string {
	comments := make(map[protoreflect.FullName]string)
	for _, f := range files {
		for _, at := range f.GetSourceCodeInfo().GetLocation() {
			text := commentText(at.GetLeadingComments())
			if text == "" {
				text = commentText(at.GetTrailingComments())
			}
			if text == "" {
				continue
			}
			name, ok := nameAt(f, at.GetPath())
			if _, known := comments[name]; !ok || known {
				continue
			}
			if len(text) > maxComment {
				text = text[:maxComment] + "…"
			}
			comments[name] = strings.ToValidUTF8(text, "\uFFFD")
		}
		f.SourceCodeInfo = nil
	}
	return comments
}

// commentText takes away the one space that stands between the slashes and the
// text of each line.
func commentText(raw string) string {
	lines := strings.Split(strings.TrimSpace(raw), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(line, " "), " \t\r")
	}
	return strings.Join(lines, "\n")
}

// nameAt gives the full name of what a location's path leads to: field numbers
// of descriptor.proto and indexes, in turn. There are other things in a file
// than those with names that we want.
func nameAt(f *descriptorpb.FileDescriptorProto, path []int32) (protoreflect.FullName, bool) {
	scope := protoreflect.FullName(f.GetPackage())
	if len(path) < 2 {
		return "", false
	}
	i, rest := path[1], path[2:]
	switch path[0] {
	case 4: // message_type
		if m, ok := at(f.GetMessageType(), i); ok {
			return nameInMessage(scope, m, rest)
		}
	case 5: // enum_type
		if e, ok := at(f.GetEnumType(), i); ok {
			return nameInEnum(scope, e, rest)
		}
	case 6: // service
		s, ok := at(f.GetService(), i)
		if !ok {
			return "", false
		}
		name := join(scope, s.GetName())
		if len(rest) == 0 {
			return name, true
		}
		return member(name, s.GetMethod(), rest, 2)
	}
	return "", false
}

func nameInMessage(scope protoreflect.FullName, m *descriptorpb.DescriptorProto, path []int32) (protoreflect.FullName, bool) {
	name := join(scope, m.GetName())
	if len(path) == 0 {
		return name, true
	}
	if len(path) < 2 {
		return "", false
	}
	switch path[0] {
	case 3: // nested_type
		if nested, ok := at(m.GetNestedType(), path[1]); ok {
			return nameInMessage(name, nested, path[2:])
		}
		return "", false
	case 4: // enum_type
		if e, ok := at(m.GetEnumType(), path[1]); ok {
			return nameInEnum(name, e, path[2:])
		}
		return "", false
	case 8: // oneof_decl
		return member(name, m.GetOneofDecl(), path, 8)
	default:
		return member(name, m.GetField(), path, 2)
	}
}

// nameInEnum names an enum, or a value, which stands beside its enum.
func nameInEnum(scope protoreflect.FullName, e *descriptorpb.EnumDescriptorProto, path []int32) (protoreflect.FullName, bool) {
	if len(path) == 0 {
		return join(scope, e.GetName()), true
	}
	return member(scope, e.GetValue(), path, 2)
}

// member names the member that path, which is a field's number and an index,
// chooses among those of that field.
func member[M interface{ GetName() string }](scope protoreflect.FullName, members []M, path []int32, field int32) (protoreflect.FullName, bool) {
	if len(path) != 2 || path[0] != field {
		return "", false
	}
	m, ok := at(members, path[1])
	if !ok {
		return "", false
	}
	return join(scope, m.GetName()), true
}

func at[T any](all []T, i int32) (item T, ok bool) {
	if i < 0 || int(i) >= len(all) {
		return item, false
	}
	return all[i], true
}

// join is [protoreflect.FullName.Append] for names that nobody has checked yet.
func join(scope protoreflect.FullName, name string) protoreflect.FullName {
	if scope == "" {
		return protoreflect.FullName(name)
	}
	return scope + "." + protoreflect.FullName(name)
}

// sortedComments gives the comments, each after its name, in the names' order.
func sortedComments(comments map[protoreflect.FullName]string) []string {
	lines := make([]string, 0, len(comments))
	for name, text := range comments {
		lines = append(lines, string(name)+"\n"+text)
	}
	slices.Sort(lines)
	return lines
}

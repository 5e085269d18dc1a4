package routes

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

const commentedProto = `syntax = "proto3";
package c;
// Of the service.
service S {
  // Of the method,
  //   on two lines.
  rpc M(Msg) returns (Msg);
}
// Of the message.
message Msg {
  int32 a = 1; // Behind the field.
  // Of the oneof.
  oneof o {
    // Of its member.
    int32 b = 2;
  }
  // Of the inner message.
  message Inner {
    // Of the inner field.
    int32 x = 1;
  }
  // Of the inner enum.
  enum E {
    // Of the inner value.
    ZERO = 0;
  }
  int32 none = 3;
}
// Of the enum.
enum F {
  F_ZERO = 0; // Behind the value.
}
`

func TestComments(t *testing.T) {
	d := compileText(t, map[string]string{"c.proto": commentedProto}, "c.proto")
	for name, want := range map[string]string{
		"c.S": "Of the service.", "c.S.M": "Of the method,\n  on two lines.",
		"c.Msg": "Of the message.", "c.Msg.a": "Behind the field.", "c.Msg.o": "Of the oneof.", "c.Msg.b": "Of its member.",
		"c.Msg.Inner": "Of the inner message.", "c.Msg.Inner.x": "Of the inner field.",
		"c.Msg.E": "Of the inner enum.", "c.Msg.ZERO": "Of the inner value.", "c.Msg.none": "",
		"c.F": "Of the enum.", "c.F_ZERO": "Behind the value.", "c.None": "",
	} {
		if got := d.Comment(protoreflect.FullName(name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	f, err := d.Files().FindFileByPath("c.proto")
	if err != nil || f.SourceLocations().Len() > 0 {
		t.Errorf("what reflection passes on has %d positions; %v", f.SourceLocations().Len(), err)
	}
	other := compileText(t, map[string]string{"c.proto": strings.Replace(commentedProto, "Of the enum", "Of that enum", 1)}, "c.proto")
	if d.Equal(other) {
		t.Error("a comment makes no difference")
	}
}

// Positions are a backend's to send; they may lead anywhere.
func TestCommentsOfBadPositions(t *testing.T) {
	text := strings.Repeat("ü", maxComment)
	name := "M"
	f := &descriptorpb.FileDescriptorProto{
		MessageType:    []*descriptorpb.DescriptorProto{{Name: &name}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{},
	}
	for _, path := range [][]int32{
		nil, {4}, {4, -1}, {4, 1}, {4, 0, 2}, {4, 0, 2, 0}, {4, 0, 3, 0, 1}, {4, 0, 4, -5}, {4, 0, 8, 1}, {5, 0}, {6, 0}, {6, 0, 2, 0}, {7, 0},
		{4, 0}, {4, 0},
	} {
		f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{Path: path, LeadingComments: &text})
	}
	comments := takeComments([]*descriptorpb.FileDescriptorProto{f, {}})
	got := comments["M"]
	if len(comments) != 1 || len(got) > maxComment+len("…") || !strings.HasPrefix(got, "ü") {
		t.Errorf("%d comments; that of M has %d bytes", len(comments), len(got))
	}
	if f.SourceCodeInfo != nil {
		t.Error("positions are left in the file")
	}
}

// Whatever positions a file has, what they name is in it, and where
// protoreflect finds it.
func FuzzTakeComments(f *testing.F) {
	d, err := CompileProto(f.Context(), protoSources(f, map[string]string{"c.proto": commentedProto}, "c.proto"))
	if err != nil {
		f.Fatal(err)
	}
	file, err := d.Files().FindFileByPath("c.proto")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{4, 0, 2, 0}, "a comment")
	f.Add([]byte{4, 0, 3, 0, 2, 0}, " \n two\n  lines \xff")
	f.Add([]byte{4, 0, 4, 0, 2, 0}, "")
	f.Add([]byte{6, 0, 2, 0}, "m")
	f.Fuzz(func(t *testing.T, path []byte, text string) {
		at := &descriptorpb.SourceCodeInfo_Location{LeadingComments: &text}
		for _, b := range path {
			at.Path = append(at.Path, int32(int8(b)))
		}
		p := protodesc.ToFileDescriptorProto(file)
		p.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{at}}
		comments := takeComments([]*descriptorpb.FileDescriptorProto{p})
		for name, comment := range comments {
			found, err := located(t, p, at).FindDescriptorByName(name)
			if err != nil {
				t.Fatalf("%v names %q: %v", at.GetPath(), name, err)
			}
			if want := found.ParentFile().SourceLocations().ByDescriptor(found).LeadingComments; want != text {
				t.Fatalf("%v is not the position of %s", at.GetPath(), name)
			}
			if !utf8.ValidString(comment) || len(comment) > 2*maxComment || strings.TrimSpace(comment) == "" {
				t.Fatalf("%s: %q", found.FullName(), comment)
			}
		}
	})
}

// located registers a file with one position in it.
func located(tb testing.TB, p *descriptorpb.FileDescriptorProto, at *descriptorpb.SourceCodeInfo_Location) *protoregistry.Files {
	tb.Helper()
	at.Span = []int32{0, 0, 0}
	p.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{at}}
	files := new(protoregistry.Files)
	f, err := protodesc.NewFile(p, files)
	if err != nil {
		tb.Fatal(err)
	}
	if err := files.RegisterFile(f); err != nil {
		tb.Fatal(err)
	}
	return files
}

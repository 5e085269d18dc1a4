package routes

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestRegistryExtensions(t *testing.T) {
	const text = `syntax = "proto2"; package PKG; import "google/protobuf/descriptor.proto";
		extend google.protobuf.FieldOptions { optional string NAME = NUMBER; }
		message M { extend google.protobuf.FieldOptions { optional string inner = 50003; } }
		service S { rpc A(M) returns (M); }`
	x := compileText(t, map[string]string{"x.proto": strings.NewReplacer("PKG", "x", "NAME", "first", "NUMBER", "50001").Replace(text)}, "x.proto")
	y := compileText(t, map[string]string{"y.proto": strings.NewReplacer("PKG", "y", "NAME", "second", "NUMBER", "50002").Replace(text)}, "y.proto")
	table, err := Build([]Input{{backendNamed("x"), x}, {backendNamed("y"), y}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Registry()
	got := make(map[protoreflect.FieldNumber]protoreflect.FullName)
	r.RangeExtensionsByMessage("google.protobuf.FieldOptions", func(xt protoreflect.ExtensionType) bool {
		got[xt.TypeDescriptor().Number()] = xt.TypeDescriptor().FullName()
		return true
	})
	want := map[protoreflect.FieldNumber]protoreflect.FullName{50001: "x.first", 50002: "y.second", 50003: "x.M.inner"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for number, name := range want {
		if got[number] != name {
			t.Errorf("%d: got %s, want %s", number, got[number], name)
		}
		if xt, err := r.FindExtensionByNumber("google.protobuf.FieldOptions", number); err != nil || xt.TypeDescriptor().FullName() != name {
			t.Errorf("%d: %v, %v", number, xt, err)
		}
		if xt, err := r.FindExtensionByName(name); err != nil || xt.TypeDescriptor().Number() != number {
			t.Errorf("%s: %v, %v", name, xt, err)
		}
	}
	calls := 0
	r.RangeExtensionsByMessage("google.protobuf.FieldOptions", func(protoreflect.ExtensionType) bool {
		calls++
		return false
	})
	if calls != 1 {
		t.Errorf("went on %d times after being stopped", calls-1)
	}
	if _, err := r.FindFileByPath("y.proto"); err != nil {
		t.Error(err)
	}
	for _, find := range []func() error{
		func() error { _, err := r.FindFileByPath("z.proto"); return err },
		func() error { _, err := r.FindDescriptorByName("x.S.B"); return err },
		func() error { _, err := r.FindExtensionByName("x.third"); return err },
		func() error { _, err := r.FindExtensionByNumber("google.protobuf.FieldOptions", 1); return err },
	} {
		if find() == nil {
			t.Error("found what is not there")
		}
	}
}

// TestRegistryLongNames: a name as long as a message may be takes no more than a moment. There are many types, as
// Go's small maps do not hash what they look for.
func TestRegistryLongNames(t *testing.T) {
	x := compileText(t, map[string]string{"x.proto": `syntax = "proto3"; package x; message M {} service S { rpc A(M) returns (M); }
		enum Many { A = 0; B = 1; C = 2; D = 3; E = 4; F = 5; G = 6; H = 7; I = 8; J = 9; }`}, "x.proto")
	table, err := Build([]Input{{backendNamed("x"), x}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Registry()
	name := protoreflect.FullName(strings.Repeat("a.", 1<<19) + "a")
	begun := time.Now()
	if d, err := r.FindDescriptorByName(name); err == nil {
		t.Errorf("found %v", d.FullName())
	}
	if xt, err := r.FindExtensionByName(name); err == nil {
		t.Errorf("found %v", xt)
	}
	if took := time.Since(begun); took > 10*time.Second { // some µs; otherwise minutes
		t.Errorf("took %v", took)
	}
}

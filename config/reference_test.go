package config

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md anew")

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../docs/config.md"
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say; run: go test ./config -run TestReference -update", file)
	}
}

// What the types say is what users read, and what the loader does: each key has
// a comment, and tags that can be read.
func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	docs, err := comments()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections(reflect.TypeFor[Config]()) {
		name := s.section.Name()
		if docs[name] == "" {
			t.Errorf("%s has no comment; is its file among sources?", name)
		}
		seen := map[string]bool{}
		for _, f := range fieldsOf(s.section) {
			if docs[name+"."+f.Name] == "" {
				t.Errorf("%s.%s has no comment", name, f.Name)
			}
			if seen[f.key] {
				t.Errorf("%s has the key %s twice", name, f.key)
			}
			seen[f.key] = true
			checkTags(t, name, f)
		}
		for sf := range s.section.Fields() {
			if sf.IsExported() && sf.Tag.Get("yaml") == "" {
				t.Errorf("%s.%s has no yaml key", name, sf.Name)
			}
		}
	}
}

func checkTags(t *testing.T, section string, f field) {
	t.Helper()
	for tag := range strings.FieldsSeq("default min max") {
		text, ok := f.Tag.Lookup(tag)
		if !ok {
			continue
		}
		if tag == "default" && f.list() != nil && f.Type.Elem().Kind() == reflect.String {
			continue
		}
		if !isScalar(f.Type) {
			t.Errorf("%s.%s: a %s has no %s", section, f.Name, f.Type, tag)
		} else if _, err := parseScalar(f.Type, text); err != nil {
			t.Errorf("%s.%s: %s %q %v", section, f.Name, tag, text, err)
		}
	}
	enumerable := f.Type.Kind() == reflect.String || f.Type == reflect.TypeFor[[]string]()
	if f.enum() != nil && !enumerable {
		t.Errorf("%s.%s: enum of a %s", section, f.Name, f.Type)
	}
}

func TestDefaultsAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.Redis.Addresses = []string{"127.0.0.1:6379"}
	b := DefaultBackend("shop")
	b.Target, b.Reflection = "dns:///shop:9100", true
	c.Backends = []Backend{b}
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults are not valid:\n%v", err)
	}
}

package template

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	lit := func(s string) Segment { return Segment{Kind: Literal, Text: s} }
	one, deep := Segment{Kind: Wildcard}, Segment{Kind: DeepWildcard}
	tests := []struct {
		text     string
		segments []Segment
		vars     []Variable
		verb     string
	}{
		{"/", []Segment{lit("")}, nil, ""},
		{"/v1/users", []Segment{lit("v1"), lit("users")}, nil, ""},
		{"/v1/*/b/**", []Segment{lit("v1"), one, lit("b"), deep}, nil, ""},
		{"/v1/**/b/*", []Segment{lit("v1"), deep, lit("b"), one}, nil, ""},
		{"/v1/{id}", []Segment{lit("v1"), one}, []Variable{{"id", 1, 2}}, ""},
		{"/v1/{user.name.first_2}", []Segment{lit("v1"), one}, []Variable{{"user.name.first_2", 1, 2}}, ""},
		{
			"/v1/{name=shelves/*/books/**}:list", []Segment{lit("v1"), lit("shelves"), one, lit("books"), deep},
			[]Variable{{"name", 1, 5}}, "list",
		},
		{"/{a=*}/{b=**}", []Segment{one, deep}, []Variable{{"a", 0, 1}, {"b", 1, 2}}, ""},
		{"/v1/users:watch", []Segment{lit("v1"), lit("users")}, nil, "watch"},
		{"/v1/a:b:c", []Segment{lit("v1"), lit("a:b")}, nil, "c"},
		{"/v1/{id}:b:c", []Segment{lit("v1"), one}, []Variable{{"id", 1, 2}}, "b:c"},
		{"/v1/*:b", []Segment{lit("v1"), one}, nil, "b"},
		{"/v1/**:b", []Segment{lit("v1"), deep}, nil, "b"},
		{"/a:b/c", []Segment{lit("a:b"), lit("c")}, nil, ""},
		{"/{x=a:b}:c", []Segment{lit("a:b")}, []Variable{{"x", 0, 1}}, "c"},
		{"/a%20b/%2A%2f:x%3ay", []Segment{lit("a b"), lit("*/")}, nil, "x:y"},
		{"/a=b/!$&'()+,;@~-._", []Segment{lit("a=b"), lit("!$&'()+,;@~-._")}, nil, ""},
		{"/shop.UserService/GetUser", []Segment{lit("shop.UserService"), lit("GetUser")}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Segments, tt.segments) || !reflect.DeepEqual(got.Variables, tt.vars) || got.Verb != tt.verb {
				t.Errorf("got %+v %+v %q", got.Segments, got.Variables, got.Verb)
			}
			if got.String() != tt.text {
				t.Errorf("String() = %q", got.String())
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		text   string
		column int
		reason string
	}{
		{"", 1, "begin with /"},
		{"v1", 1, "begin with /"},
		{"//", 2, "empty segment"},
		{"/v1//x", 5, "empty segment"},
		{"/v1/", 5, "empty segment"},
		{"/v1/{a=b/}", 10, "empty segment"},
		{"/v1/{a=}", 8, "empty segment"},
		{"/:verb", 2, "verb needs a segment"},
		{"/v1/:verb", 5, "verb needs a segment"},
		{"/v1:", 5, "empty verb"},
		{"/{a}:", 6, "empty verb"},
		{"/{a}:x/y", 7, "unexpected '/'"},
		{"/{a}b", 5, "unexpected 'b'"},
		{"/{a}{b}", 5, "unexpected '{'"},
		{"/v1/{a", 5, "never closed"},
		{"/v1/{a=b", 5, "never closed"},
		{"/v1/{}", 6, "expected a field name"},
		{"/v1/{a.}", 8, "expected a field name"},
		{"/v1/{.a}", 6, "expected a field name"},
		{"/v1/{1a}", 6, "expected a field name"},
		{"/v1/{a-b}", 7, "unexpected '-'"},
		{"/v1/{a={b}}", 8, "cannot hold another variable"},
		{"/{a}/{a}", 7, "second time"},
		{"/**/**", 5, "only one"},
		{"/**/{a=**}", 8, "only one"},
		{"/a*", 3, "whole segment"},
		{"/a*b", 3, "whole segment"},
		{"/*b", 3, "whole segment"},
		{"/***", 4, "whole segment"},
		{"/{a=b*}", 6, "whole segment"},
		{"/a b", 3, "unexpected ' '"},
		{"/a?b", 3, "unexpected '?'"},
		{"/a#", 3, "unexpected '#'"},
		{"/ä", 2, "unexpected 'ä'"},
		{"/a\x00", 3, `unexpected '\x00'`},
		{"/*\x00", 3, `unexpected '\x00'`},
		{"/a}", 3, "unexpected '}'"},
		{"/a{b}", 3, "unexpected '{'"},
		{"/a%2", 3, "two hex digits"},
		{"/a%zz", 3, "two hex digits"},
		{"/a:%", 4, "two hex digits"},
		{"/" + strings.Repeat("a", MaxLength), MaxLength + 1, "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.text[:min(len(tt.text), 20)], func(t *testing.T) {
			_, err := Parse(tt.text)
			var pe *ParseError
			if !errors.As(err, &pe) {
				t.Fatalf("got %v", err)
			}
			if pe.Column != tt.column || !strings.Contains(pe.Reason, tt.reason) {
				t.Errorf("got column %d: %s; want column %d: …%s…", pe.Column, pe.Reason, tt.column, tt.reason)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/", "/v1/{name=shelves/*/books/**}:list", "/a%20b/{a.b}:x:y", "/**/a/*", "/v1/{a={b}}", "/a:", "//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := Parse(text)
		if err != nil {
			var pe *ParseError
			if !errors.As(err, &pe) || pe.Column < 1 || pe.Column > len(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var tree Tree
		if _, ok := tree.Insert("GET", tmpl, 7); !ok {
			t.Fatal("insert into an empty tree failed")
		}
		if _, ok := tree.Insert("GET", tmpl, 8); ok {
			t.Fatal("the same template went in twice")
		}
		var p Path
		if err := p.Parse(tmpl.Example()); err != nil {
			t.Fatalf("example %q of %q: %v", tmpl.Example(), text, err)
		}
		id, vars, ok := tree.Match("GET", &p, nil)
		if !ok || id != 7 || len(vars) != len(tmpl.Variables) {
			t.Fatalf("example %q of %q: %d %q %v", tmpl.Example(), text, id, vars, ok)
		}
	})
}

package template

import "testing"

func TestTreeFind(t *testing.T) {
	var tree Tree
	parse := func(s string) *Template {
		tmpl, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	for i, s := range []string{"/v1/users/{id}", "/v1/users/{id}:purge", "/v1/{name=a/**}/b", "/v1/users"} {
		if _, ok := tree.Insert("GET", parse(s), i); !ok {
			t.Fatalf("%s is there already", s)
		}
	}
	for _, tt := range []struct {
		method, template string
		id               int
		ok               bool
	}{
		{"GET", "/v1/users/{other}", 0, true},
		{"GET", "/v1/users/*:purge", 1, true},
		{"GET", "/v1/a/**/b", 2, true},
		{"GET", "/v1/users", 3, true},
		{"HEAD", "/v1/users", 0, false}, // GET's serves it, but doesn't stand in its way
		{"*", "/v1/users", 0, false},
		{"GET", "/v1/users/{id}:other", 0, false},
		{"GET", "/v1/users/me", 0, false},
		{"GET", "/v1/a/**", 0, false},
		{"GET", "/v1", 0, false},
	} {
		id, ok := tree.Find(tt.method, parse(tt.template))
		if id != tt.id || ok != tt.ok {
			t.Errorf("%s %s: %d, %v", tt.method, tt.template, id, ok)
		}
	}
}

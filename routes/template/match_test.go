package template

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// newTree makes a tree of "METHOD /template" lines; their ids are their indexes.
func newTree(tb testing.TB, lines ...string) *Tree {
	tb.Helper()
	tree := new(Tree)
	for i, line := range lines {
		method, text, _ := strings.Cut(line, " ")
		tmpl, err := Parse(text)
		if err != nil {
			tb.Fatal(err)
		}
		if j, ok := tree.Insert(method, tmpl, i); !ok {
			tb.Fatalf("%s conflicts with %s", line, lines[j])
		}
	}
	return tree
}

func TestMatch(t *testing.T) {
	tests := []struct {
		name   string
		routes []string
		path   string // "METHOD /path"
		want   string // the route; empty: none
		vars   []string
	}{
		{"root", []string{"GET /"}, "GET /", "GET /", nil},
		{"root is not empty", []string{"GET /a"}, "GET /", "", nil},
		{"literal", []string{"GET /v1/users"}, "GET /v1/users", "GET /v1/users", nil},
		{"trailing slash", []string{"GET /v1/users"}, "GET /v1/users/", "", nil},
		{"too short", []string{"GET /v1/users"}, "GET /v1", "", nil},
		{"variable", []string{"GET /v1/{id}"}, "GET /v1/7", "GET /v1/{id}", []string{"7"}},
		{"empty variable", []string{"GET /v1/{id}"}, "GET /v1/", "GET /v1/{id}", []string{""}},
		{"literal before wildcard", []string{"GET /v1/{id}", "GET /v1/me"}, "GET /v1/me", "GET /v1/me", nil},
		{
			"wildcard before deep", []string{"GET /v1/{id=**}", "GET /v1/{id}"}, "GET /v1/me",
			"GET /v1/{id}", []string{"me"},
		},
		{
			"deep when longer", []string{"GET /v1/{id=**}", "GET /v1/{id}"}, "GET /v1/a/b",
			"GET /v1/{id=**}", []string{"a/b"},
		},
		{
			"a literal that leads nowhere falls back", []string{"GET /v1/users/me/photo", "GET /v1/{c}/{id}/posts"},
			"GET /v1/users/me/posts", "GET /v1/{c}/{id}/posts", []string{"users", "me"},
		},
		{
			"and on to deep", []string{"GET /v1/users/me/photo", "GET /v1/{c}/me/posts", "GET /{all=**}"},
			"GET /v1/users/me/x", "GET /{all=**}", []string{"v1/users/me/x"},
		},
		{
			"a branch of another method falls back", []string{"POST /v1/me", "GET /v1/{id}"}, "GET /v1/me",
			"GET /v1/{id}", []string{"me"},
		},
		{
			"multi-segment variable", []string{"GET /v1/{name=shelves/*/books/*}"}, "GET /v1/shelves/1/books/2",
			"GET /v1/{name=shelves/*/books/*}", []string{"shelves/1/books/2"},
		},
		{
			"tail", []string{"GET /v1/{name=**}/x/{y}"}, "GET /v1/a/b/x/c",
			"GET /v1/{name=**}/x/{y}", []string{"a/b", "c"},
		},
		{
			"longer tail first", []string{"GET /{a=**}", "GET /{a=**}/x", "GET /{a=**}/y/x"}, "GET /1/y/x",
			"GET /{a=**}/y/x", []string{"1"},
		},
		{"deep takes none", []string{"GET /v1/{a=**}"}, "GET /v1", "GET /v1/{a=**}", []string{""}},
		{"deep takes none, in a variable", []string{"GET /{a=v1/**}"}, "GET /v1", "GET /{a=v1/**}", []string{"v1/"}},
		{"deep takes none, at the front", []string{"GET /{a=**/v1}"}, "GET /v1", "GET /{a=**/v1}", []string{"/v1"}},
		{"deep takes none, within", []string{"GET /{a=x/**/y}"}, "GET /x/y", "GET /{a=x/**/y}", []string{"x//y"}},
		{"deep takes none, with a verb", []string{"GET /{a=v1/**}:go"}, "GET /v1:go", "GET /{a=v1/**}:go", []string{"v1/"}},
		{"exact before deep that takes none", []string{"GET /v1/**", "GET /v1"}, "GET /v1", "GET /v1", nil},

		{"verb", []string{"GET /v1/{id}:watch"}, "GET /v1/7:watch", "GET /v1/{id}:watch", []string{"7"}},
		{"verb missing", []string{"GET /v1/{id}:watch"}, "GET /v1/7", "", nil},
		{"verb before none", []string{"GET /v1/{id}", "GET /v1/{id}:watch"}, "GET /v1/7:watch", "GET /v1/{id}:watch", []string{"7"}},
		{
			"unknown verb is text", []string{"GET /v1/{id}", "GET /v1/{id}:watch"}, "GET /v1/7:stop",
			"GET /v1/{id}", []string{"7:stop"},
		},
		{
			"verb of another route falls back to text", []string{"GET /v1/{id}", "GET /v2/x:watch"}, "GET /v1/7:watch",
			"GET /v1/{id}", []string{"7:watch"},
		},
		{"bare verb", []string{"GET /v1/{id}", "GET /v1/{id}:watch"}, "GET /v1/:watch", "GET /v1/{id}", []string{":watch"}},
		{"longer verb first", []string{"GET /{id}:b", "GET /{id}:a:b"}, "GET /x:a:b", "GET /{id}:a:b", []string{"x"}},
		{"shorter verb", []string{"GET /{id}:b", "GET /{id}:a:b"}, "GET /x:c:b", "GET /{id}:b", []string{"x:c"}},
		{"literal with a colon", []string{"GET /a:b/c"}, "GET /a:b/c", "GET /a:b/c", nil},
		{"literal with a colon and a verb", []string{"GET /a:b:c"}, "GET /a:b:c", "GET /a:b:c", nil},
		{"literal with a verb before wildcard", []string{"GET /{id}", "GET /users:watch"}, "GET /users:watch", "GET /users:watch", nil},
		{"deep with verb", []string{"GET /v1/{n=**}:go"}, "GET /v1/a/b:go", "GET /v1/{n=**}:go", []string{"a/b"}},
		{"verb only at the end", []string{"GET /v1/{n=**}:go"}, "GET /v1/a:go/b", "", nil},

		{"any method", []string{"* /v1"}, "PURGE /v1", "* /v1", nil},
		{"named before any method", []string{"* /v1", "GET /v1"}, "GET /v1", "GET /v1", nil},
		{"HEAD is GET", []string{"GET /v1"}, "HEAD /v1", "GET /v1", nil},
		{"HEAD itself first", []string{"GET /v1", "HEAD /v1"}, "HEAD /v1", "HEAD /v1", nil},
		{"methods are case-sensitive", []string{"GET /v1"}, "get /v1", "", nil},

		{"escaped slash", []string{"GET /v1/{id}"}, "GET /v1/a%2Fb", "GET /v1/{id}", []string{"a/b"}},
		{"escaped slash in small letters", []string{"GET /v1/{id}/c"}, "GET /v1/a%2fb/c", "GET /v1/{id}/c", []string{"a/b"}},
		{"escaped slash in deep", []string{"GET /v1/{id=**}"}, "GET /v1/a%2Fb/c", "GET /v1/{id=**}", []string{"a/b/c"}},
		{"escaped slash is no separator", []string{"GET /v1/users"}, "GET /v1%2Fusers", "", nil},
		{"decoded once", []string{"GET /v1/{id}"}, "GET /v1/%2523", "GET /v1/{id}", []string{"%23"}},
		{"escaped literal", []string{"GET /v1/users"}, "GET /v1/%75sers", "GET /v1/users", nil},
		{"escapes in the template", []string{"GET /a%20b"}, "GET /a%20b", "GET /a%20b", nil},
		{"escaped colon", []string{"GET /v1/{id}:watch"}, "GET /v1/7%3Awatch", "GET /v1/{id}:watch", []string{"7"}},
		{"plus is plus", []string{"GET /v1/{id}"}, "GET /v1/a+b", "GET /v1/{id}", []string{"a+b"}},
		{"no cleaning", []string{"GET /v1/{id}"}, "GET /v1//", "", nil},
		{"dots are text", []string{"GET /v1/{id}/x"}, "GET /v1/../x", "GET /v1/{id}/x", []string{".."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := newTree(t, tt.routes...)
			method, raw, _ := strings.Cut(tt.path, " ")
			var p Path
			if err := p.Parse(raw); err != nil {
				t.Fatal(err)
			}
			id, vars, ok := tree.Match(method, &p, nil)
			got := ""
			if ok {
				got = tt.routes[id]
			}
			if got != tt.want || !reflect.DeepEqual(vars, tt.vars) {
				t.Errorf("got %q %q; want %q %q", got, vars, tt.want, tt.vars)
			}
		})
	}
}

func TestPathErrors(t *testing.T) {
	for _, raw := range []string{"", "v1", "*", "/%", "/a%2", "/a%2/b", "/%zz", "/a/%g0/b", "http://x/"} {
		var p Path
		err := p.Parse(raw)
		if _, ok := err.(*PathError); !ok { //nolint:errorlint // the very type is promised
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestPathDropsLargeRoom(t *testing.T) {
	var p Path
	if err := p.Parse(strings.Repeat("/", 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := p.Parse("/a"); err != nil {
		t.Fatal(err)
	}
	if cap(p.starts) > keepSegments {
		t.Errorf("keeps room for %d segments", cap(p.starts))
	}
}

func TestAllow(t *testing.T) {
	tree := newTree(t, "GET /v1/users", "POST /v1/users", "DELETE /v1/{id}", "PATCH /v1/{id}:x", "* /any", "PUT /{a=**}/z")
	for path, want := range map[string][]string{
		"/v1/users": {"DELETE", "GET", "HEAD", "OPTIONS", "POST"},
		"/v1/7":     {"DELETE", "OPTIONS"},
		"/v1/7:x":   {"DELETE", "OPTIONS", "PATCH"},
		"/v1/z":     {"DELETE", "OPTIONS", "PUT"},
		"/any":      {"*", "OPTIONS"},
		"/none":     nil,
	} {
		var p Path
		if err := p.Parse(path); err != nil {
			t.Fatal(err)
		}
		if got := tree.Allow(&p); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

// A tree in which a literal and a wildcard are open at each of 16 levels, and
// all lead nowhere, is still searched within what the templates' depth allows.
func TestBacktrackingIsBounded(t *testing.T) {
	tree := new(Tree)
	for i := range 1 << 10 {
		var b strings.Builder
		for bit := range 10 {
			b.WriteString([]string{"/a", "/*"}[i>>bit&1])
		}
		tmpl, err := Parse(b.String() + "/end")
		if err != nil {
			t.Fatal(err)
		}
		tree.Insert("GET", tmpl, i)
	}
	var p Path
	if err := p.Parse(strings.Repeat("/a", 10) + "/other"); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := tree.Match("GET", &p, nil); ok {
		t.Error("matched")
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	tree := newTree(t, "GET /v1/users/{id}", "GET /v1/{name=shelves/*/books/**}:read", "GET /v1/{a}/{b}/{c}")
	var p Path
	vars := make([]string, 0, 4)
	for _, path := range []string{"/v1/users/7", "/v1/shelves/1/books/2/3:read", "/v1/a/b/c", "/none"} {
		if n := testing.AllocsPerRun(100, func() {
			if err := p.Parse(path); err != nil {
				t.Error(err)
			}
			_, vars, _ = tree.Match("GET", &p, vars[:0])
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		lines := make([]string, 0, n)
		for i := range n / 5 {
			lines = append(lines,
				fmt.Sprintf("GET /v1/things%d", i),
				fmt.Sprintf("POST /v1/things%d", i),
				fmt.Sprintf("GET /v1/things%d/{id}", i),
				fmt.Sprintf("GET /v1/things%d/{id}/parts:watch", i),
				fmt.Sprintf("GET /v1/{name=things%d/*/files/**}", i))
		}
		tree := newTree(b, lines...)
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			var p Path
			vars := make([]string, 0, 4)
			paths := []string{"/v1/things1/12345", "/v1/things0/12345/parts:watch", "/v1/things1/12345/files/a/b/c"}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := p.Parse(paths[i%len(paths)]); err != nil {
					b.Fatal(err)
				}
				var ok bool
				if _, vars, ok = tree.Match("GET", &p, vars[:0]); !ok {
					b.Fatal(paths[i%len(paths)])
				}
				i++
			}
		})
	}
}

package template

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// runtimeMatch asks grpc-gateway's own mux whether it matches a path, and for
// the variables.
func runtimeMatch(tb testing.TB, text string, u *url.URL) (vars map[string]string, ok bool) {
	tb.Helper()
	mux := runtime.NewServeMux()
	err := mux.HandlePath("GET", text, func(_ http.ResponseWriter, _ *http.Request, params map[string]string) {
		vars, ok = params, true
	})
	if err != nil {
		tb.Fatalf("%q: grpc-gateway refuses what we take: %v", text, err)
	}
	mux.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
	return vars, ok
}

var (
	escapedSlash = regexp.MustCompile(`%2[fF]`)
	// grpc-gateway reads `*:a:b` as the literal `*:a` and the verb b.
	wildcardColons = regexp.MustCompile(`\*:[^/]*:[^/]*$`)
)

// checkRuntime matches a path among templates, and compares with grpc-gateway's
// runtime asked for each template alone. An escaped slash, which we don't take
// for a slash, is smuggled past the oracle as \x01.
func checkRuntime(t *testing.T, templates []string, raw string) {
	t.Helper()
	if strings.Contains(raw, "%01") {
		return
	}
	u, err := url.ParseRequestURI(escapedSlash.ReplaceAllString(raw, "%01"))
	var p Path
	ours := p.Parse(raw)
	if !strings.HasPrefix(raw, "/") && ours == nil {
		t.Fatalf("%q: not refused", raw)
	}
	if err != nil {
		if escape := url.EscapeError(""); errors.As(err, &escape) && ours == nil {
			t.Fatalf("%q: net/url refuses the path, we don't: %v", raw, err)
		}
		return
	}
	if !strings.HasPrefix(raw, "/") || u.RawQuery != "" || u.ForceQuery {
		return
	}
	if ours != nil {
		t.Fatalf("%q: we refuse the path, net/url doesn't: %v", raw, ours)
	}

	tree := new(Tree)
	matching := map[int]map[string]string{}
	var parsed []*Template
	for _, text := range templates {
		tmpl, err := Parse(text)
		if err != nil || strings.Contains(text, "%") || wildcardColons.MatchString(text) {
			continue
		}
		i := len(parsed)
		parsed = append(parsed, tmpl)
		if _, ok := tree.Insert("GET", tmpl, i); !ok {
			continue
		}
		if vars, ok := runtimeMatch(t, text, u); ok {
			matching[i] = vars
		}
	}
	id, values, ok := tree.Match("GET", &p, nil)
	if ok != (len(matching) > 0) {
		t.Fatalf("%q on %q: match %v; grpc-gateway has %v", templates, raw, ok, matching)
	}
	if !ok {
		return
	}
	want, ok := matching[id]
	if !ok {
		t.Fatalf("%q on %q: we match %s, grpc-gateway doesn't", templates, raw, parsed[id])
	}
	got := map[string]string{}
	for i, path := range parsed[id].FieldPaths() {
		got[path] = values[i]
	}
	for k, v := range want {
		want[k] = strings.ReplaceAll(v, "\x01", "/")
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s on %q: got %q, grpc-gateway has %q", parsed[id], raw, got, want)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("/v1/{id}\n/v1/{id}:watch\n/v1/{name=**}", "/v1/a%2Fb:watch")
	f.Add("/{a=x/**}\n/{a=**/y}\n/{a=x/**/y}:v\n/{b=x/**}:v", "/x/y:v")
	f.Add("/a:b/c\n/{x=a:b}\n/**/b:c\n/*/*:d:e", "/a:b:c:d:e")
	f.Add("/\n/*\n/**\n/{a}:b:c", "//")
	f.Add("/v1/**\n/v1", "/v1/%2523%zz")
	f.Fuzz(func(t *testing.T, templates, raw string) {
		lines := strings.Split(templates, "\n")
		if len(lines) > 32 {
			return
		}
		checkRuntime(t, lines, raw)
	})
}

// allTemplates gives every template of up to depth segments over a small
// alphabet, with and without verbs, the whole of it as one variable or none.
func allTemplates(tb testing.TB, depth int) []*Template {
	tb.Helper()
	var all []*Template
	var grow func(prefix []string)
	grow = func(prefix []string) {
		if len(prefix) > 0 {
			for _, verb := range []string{"", ":v", ":w:v"} {
				for _, form := range []string{strings.Join(prefix, "/"), "{x=" + strings.Join(prefix, "/") + "}"} {
					tmpl, err := Parse("/" + form + verb)
					if err != nil {
						tb.Fatal(err)
					}
					all = append(all, tmpl)
				}
			}
		}
		if len(prefix) == depth {
			return
		}
		for _, s := range []string{"a", "b", "*", "**"} {
			if s != "**" || !slices.Contains(prefix, s) {
				grow(append(slices.Clip(prefix), s))
			}
		}
	}
	grow(nil)
	return all
}

func allPaths(depth int) []string {
	var all []string
	var grow func(prefix string, depth int)
	grow = func(prefix string, depth int) {
		for _, s := range []string{"", "a", "c"} {
			all = append(all, prefix+"/"+s, prefix+"/"+s+":v", prefix+"/"+s+":w:v")
			if depth > 1 {
				grow(prefix+"/"+s, depth-1)
			}
		}
	}
	grow("", depth)
	return all
}

// bruteRank tells whether t matches path, by regular expression, and gives its
// rank: the smaller, compared position by position, is the more specific.
func bruteRank(t *Template, path string) (rank []int, ok bool) {
	if t.Verb != "" {
		path, ok = strings.CutSuffix(path, ":"+t.Verb)
		if !ok || strings.HasSuffix(path, "/") {
			return nil, false
		}
	}
	const (
		nothing = iota
		literal
		wildcard
		deep
	)
	left := strings.Count(path, "/")
	var expr strings.Builder
	for i, s := range t.Segments {
		took := 1
		switch s.Kind {
		case Literal:
			expr.WriteString(regexp.QuoteMeta(s.Text) + "/")
			rank = append(rank, literal)
		case Wildcard:
			expr.WriteString("[^/]*/")
			rank = append(rank, wildcard)
		case DeepWildcard:
			expr.WriteString("(?:[^/]*/)*")
			took = left - (len(t.Segments) - i - 1)
			rank = append(rank, deep, i-len(t.Segments))
		}
		if left > 0 && left == took {
			rank = append(rank, -len(t.Verb))
		}
		left -= took
	}
	rank = append(rank, nothing)
	return rank, regexp.MustCompile("^" + expr.String() + "$").MatchString(path[1:] + "/")
}

// TestMatchBruteForce compares the trie with the plain reading of the rules, in
// the way of net/http's routing_index_test.go: random sets out of all templates
// of a small alphabet, on all paths of it.
func TestMatchBruteForce(t *testing.T) {
	templates, paths := allTemplates(t, 3), allPaths(4)
	type ranked struct {
		rank []int
		ok   bool
	}
	brute := make([][]ranked, len(templates))
	for i, tmpl := range templates {
		for _, path := range paths {
			rank, ok := bruteRank(tmpl, path)
			brute[i] = append(brute[i], ranked{rank, ok})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	for range rounds {
		tree := new(Tree)
		var ids []int
		for range 1 + rng.IntN(12) {
			id := rng.IntN(len(templates))
			if _, ok := tree.Insert("GET", templates[id], id); ok {
				ids = append(ids, id)
			}
		}
		for i, path := range paths {
			best := -1
			for _, id := range ids {
				r := brute[id][i]
				if r.ok && (best < 0 || slices.Compare(r.rank, brute[best][i].rank) < 0) {
					best = id
				}
			}
			var p Path
			if err := p.Parse(path); err != nil {
				t.Fatal(err)
			}
			got := -1
			if id, _, ok := tree.Match("GET", &p, nil); ok {
				got = id
			}
			if got != best {
				name := func(id int) string {
					if id < 0 {
						return "none"
					}
					return templates[id].String()
				}
				t.Fatalf("%s: got %s, want %s", path, name(got), name(best))
			}
		}
	}
}

// TestMatchRuntime compares every template alone, on every path, with
// grpc-gateway's runtime.
func TestMatchRuntime(t *testing.T) {
	depth := 3
	if testing.Short() {
		depth = 2
	}
	for _, tmpl := range allTemplates(t, 2) {
		for _, path := range allPaths(depth) {
			checkRuntime(t, []string{tmpl.String()}, path)
		}
	}
}

// Templates that insert finds equal, and only those, match the same paths.
func TestInsertConflict(t *testing.T) {
	templates := allTemplates(t, 2)
	shape := func(t *Template) string {
		var b strings.Builder
		for _, s := range t.Segments {
			b.WriteString([]string{"=" + s.Text, "*", "**"}[s.Kind] + "/")
		}
		return b.String() + ":" + t.Verb
	}
	slices.SortFunc(templates, func(a, b *Template) int { return cmp.Compare(a.String(), b.String()) })
	for i, a := range templates {
		for j, b := range templates {
			tree := new(Tree)
			tree.Insert("GET", a, i)
			id, ok := tree.Insert("GET", b, j)
			if same := shape(a) == shape(b); ok == same || same && id != i {
				t.Fatalf("%s, then %s: %d %v", a, b, id, ok)
			}
			if _, ok := tree.Insert("POST", b, j); !ok {
				t.Fatalf("%s: another method conflicts", b)
			}
		}
	}
}

package scope_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/routes/template"
)

// FuzzAllows compares a scope's answers with those of slow and simple matchers:
// a regular expression for methods, and a comparison of lists of segments for
// templates that routes take.
func FuzzAllows(f *testing.F) {
	for _, s := range []string{
		"*", "a.B/C", "a.*/*", "a.**/Get*", "**/*", "a.b*.C/*", "GET /**", "GET /v1/**", "* /v1/*", "GET /", "GET /v1/a*",
		"GET /v1/{id}", "GET /v1/{id}:x", "GET /{n=a/*}/b", "GET /a/*/b",
	} {
		for _, path := range []string{"/", "/v1", "/v1/{id}", "/v1/{id}:x", "/{n=a/*}/b", "/{n=a/b}:v", "/{n=a/**}", "/**", "/a/*/b", "/v1/ab:c"} {
			f.Add(s, "a.B/C", "GET", path)
		}
		f.Add(s, "a.b.C/GetX", "", "")
	}
	f.Fuzz(func(t *testing.T, text, method, verb, path string) {
		set, err := scope.Compile([]string{text})
		if err != nil {
			return
		}
		if strings.Count(method, "/") != 1 || !strings.HasPrefix(path, "/") && path != "" {
			return
		}
		if path != "" {
			if _, err := template.Parse(path); err != nil {
				path, verb = "", ""
			}
		}
		want := text == "*" || oracleMethod(text, method) || path != "" && oracleRoute(text, verb, path)
		if got := set.Allows(scope.Target{Method: method, Verb: verb, Path: path}); got != want {
			t.Errorf("scope %q: Allows(%q, %q %q) = %t, want %t", text, method, verb, path, got, want)
		}
	})
}

func oracleMethod(text, method string) bool {
	service, name, _ := strings.Cut(text, "/")
	if strings.Contains(text, " ") || text == "*" {
		return false
	}
	star := func(s string) string { return strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, `[^./]*`) }
	expr := ""
	for i, part := range strings.Split(service, ".") {
		switch {
		case part == "**" && i == 0:
			expr = `[^/]*`
		case part == "**":
			expr += `(\.[^/]*)?`
		case i == 0:
			expr = star(part)
		default:
			expr += `\.` + star(part)
		}
	}
	name = strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `[^/]*`)
	return regexp.MustCompile(`(?s)\A` + expr + "/" + name + `\z`).MatchString(method)
}

// outerSegment is what stands between two slashes of a template that are in no
// variable, with what it matches, segment by segment.
type outerSegment struct {
	text  string
	inner []string
}

func oracleRoute(text, verb, path string) bool {
	scopeVerb, scopePath, ok := strings.Cut(text, " ")
	if !ok || scopeVerb != "*" && scopeVerb != verb {
		return false
	}
	var all []outerSegment
	for _, segment := range splitOutside(path) {
		s := outerSegment{segment, []string{segment}}
		if variable, rest, ok := strings.Cut(segment, "}"); ok {
			_, pattern, given := strings.Cut(variable, "=")
			if !given {
				pattern = "*"
			}
			s.inner = strings.Split(pattern, "/")
			if last := &s.inner[len(s.inner)-1]; rest != "" && !strings.HasPrefix(*last, "*") {
				*last = "*" // see walker.nextInner
			}
		}
		all = append(all, s)
	}
	return oracleSegments(splitOutside(scopePath), all)
}

func oracleSegments(want []string, got []outerSegment) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "**" {
		return true
	}
	if len(got) == 0 {
		return false
	}
	if strings.HasPrefix(want[0], "{") {
		return want[0] == got[0].text && oracleSegments(want[1:], got[1:])
	}
	first := got[0].inner[0]
	if len(got[0].inner) > 1 {
		got = append([]outerSegment{{"", got[0].inner[1:]}}, got[1:]...)
	} else {
		got = got[1:]
	}
	covered := false
	switch {
	case strings.HasPrefix(first, "**"):
	case strings.HasPrefix(first, "*"):
		covered = want[0] == "*"
	default:
		beginning, wild := strings.CutSuffix(want[0], "*")
		covered = first == want[0] || wild && strings.HasPrefix(first, beginning)
	}
	return covered && oracleSegments(want[1:], got)
}

// splitOutside splits a path at its slashes, but for those in braces.
func splitOutside(path string) []string {
	var all []string
	depth, start := 0, 1
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth == 0 {
				all = append(all, path[start:i])
				start = i + 1
			}
		}
	}
	return append(all, path[start:])
}

// FuzzIntersect holds an intersection to its promise: it is made of scopes, and
// allows nothing that the two do not.
func FuzzIntersect(f *testing.F) {
	f.Add("a.*/*", "a.B/Get*", "a.B/GetX", "GET", "/x")
	f.Add("GET /v1/**", "* /v1/{id}", "a.B/C", "GET", "/v1/{id}")
	f.Add("GET /*", "GET /{a=b/c}", "a.B/C", "GET", "/{a=b/c}")
	f.Add("**/*", "a.**/G*", "a.B/G", "", "")
	f.Fuzz(func(t *testing.T, a, b, method, verb, path string) {
		left, err := scope.Compile([]string{a})
		if err != nil {
			return
		}
		right, err := scope.Compile([]string{b})
		if err != nil {
			return
		}
		if _, err := template.Parse(path); err != nil {
			path, verb = "", ""
		}
		common, err := scope.Intersect([]string{a}, []string{b})
		if err != nil {
			t.Fatal(err)
		}
		if len(common) == 0 {
			return
		}
		both, err := scope.Compile(common)
		if err != nil {
			t.Fatalf("%q and %q have in common %q: %v", a, b, common, err)
		}
		target := scope.Target{Method: method, Verb: verb, Path: path}
		if both.Allows(target) && (!left.Allows(target) || !right.Allows(target)) {
			t.Errorf("%q and %q have in common %q, which allows %+v", a, b, common, target)
		}
	})
}

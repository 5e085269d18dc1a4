package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The house rules that a compiler and golangci-lint do not know, as patterns
// over source lines (comments apart) and, where a line cannot tell, over syntax.

// where says which files a rule is for.
type where int

const (
	code      where = iota // files that are not tests
	tests                  // _test.go files
	realTests              // _test.go files without synctest bubbles, in which time is not fake
)

type houseRule struct {
	name    string
	where   where
	pattern *regexp.Regexp
	but     string // folders (or files) it is not for, as a pattern over paths inside the module
	reason  string
	breach  string // a line that breaks it
}

func houseRules() []houseRule {
	rule := func(name string, w where, pattern, but, reason, breach string) houseRule {
		return houseRule{name, w, regexp.MustCompile(pattern), but, reason, breach}
	}
	return []houseRule{
		rule("time.After", code, `\btime\.(After|Tick)\(`, ``,
			"its timer lives until it fires, once per pass of a loop; stop a time.Timer or time.Ticker", `case <-time.After(limit):`),
		rule("sleep", code, `\btime\.Sleep\(`, ``,
			"a sleep cannot be cancelled; select on a timer and the context", `time.Sleep(pause)`),
		rule("sleep in tests", realTests, `\btime\.Sleep\(`, `_bench_test\.go$|/bench_test\.go$`,
			"wait for a condition with a limit, or run in a synctest bubble", `time.Sleep(pause)`),
		rule("init", code, `^func init\(`, ``,
			"importing a package does nothing; main calls what must be done first", `func init() {`),
		rule("whole config", code, `\bconfig\.Config\b`, `^(cmd|gateway|config)/`,
			"a room takes its own part of the configuration", `func New(cfg *config.Config) *Room {`),
		rule("secrets", code, `\.Reveal\(\)`, `^(config|auth|discovery|admin)/`,
			"the places that read a secret are few, to be audited", `log.Debug("dialling", "password", cfg.Password.Reveal())`),
		rule("gRPC registries", code, `\b(resolver|encoding)\.Register(Codec|CodecV2|Compressor)?\(|\bbalancer\.Register\([^)]`, `^(rpcproxy/balancer/|gateway/wire/grpc\.go$)`,
			"registries are global: resolvers go in by WithResolvers, codecs by Force…CodecV2; only balancers and compressors have no other way", `resolver.Register(builder)`),
		rule("gRPC log", code, `\bgrpclog\.SetLogger`, `^telemetry/`,
			"grpc-go has one log; telemetry routes it", `grpclog.SetLoggerV2(l)`),
		rule("default logger", code, `\bslog\.(SetDefault|Default|Debug|Info|Warn|Error|Log)(Context)?\(`, ``,
			"rooms are given a logger", `slog.Warn("lost")`),
		rule("default registry", code, `\bprometheus\.(MustRegister|Register|DefaultRegisterer|DefaultGatherer)\b`, ``,
			"rooms are given a Registerer, so that two gateways fit into one process", `prometheus.MustRegister(calls)`),
		rule("default HTTP", code, `\bhttp\.(DefaultClient|DefaultServeMux|DefaultTransport|HandleFunc|Handle|Get|Post|Head|ListenAndServe)\b`, `^(cmd|integration)/`,
			"the package's globals are shared with everybody, and have no time limits", `http.Handle("/", h)`),
		rule("TODO context", code, `\bcontext\.TODO\(\)`, ``,
			"a call has a context, or a reason for Background", `ctx := context.TODO()`),
		rule("any listener", tests, `\b[Ll]isten\([^)]*"(:0|0\.0\.0\.0:0)"`, ``,
			"tests listen on the loopback interface, port 0", `lis, err := net.Listen("tcp", ":0")`),
	}
}

// sourceFile is one file as the rules see it.
type sourceFile struct {
	path string // inside the module, with slashes
	text string
	test bool
}

func TestHouseRules(t *testing.T) {
	t.Parallel()
	rules := houseRules()
	for _, f := range sourceFiles(t) {
		for _, r := range rules {
			for _, n := range r.lines(f) {
				t.Errorf("%s:%d: %s: %s", f.path, n, r.name, r.reason)
			}
		}
	}
}

// The rules must be able to fail, and comments must not break them.
func TestHouseRulesBite(t *testing.T) {
	t.Parallel()
	for _, r := range houseRules() {
		f := sourceFile{path: "newcomer/x.go", text: r.breach + "\n", test: r.where != code}
		if got := r.lines(f); len(got) != 1 {
			t.Errorf("%s: does not see %q", r.name, r.breach)
		}
		f.text = "// " + r.breach + "\n"
		if got := r.lines(f); len(got) != 0 {
			t.Errorf("%s: sees a comment", r.name)
		}
	}
}

// lines returns the numbers of the lines that break the rule.
func (r *houseRule) lines(f sourceFile) []int {
	fakeTime := strings.Contains(f.text, `"testing/synctest"`)
	switch {
	case (r.where == code) == f.test, r.where == realTests && fakeTime:
		return nil
	case r.but != "" && regexp.MustCompile(r.but).MatchString(f.path):
		return nil
	}
	var broken []int
	n := 0
	for line := range strings.Lines(f.text) {
		n++
		if text, _, _ := strings.Cut(line, "//"); r.pattern.MatchString(text) {
			broken = append(broken, n)
		}
	}
	return broken
}

// sourceFiles returns this module's files, less what is generated and this one,
// whose patterns would match themselves.
func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var all []sourceFile
	for _, p := range listPackages(t) {
		names := append(append(p.GoFiles, p.TestGoFiles...), p.XTestGoFiles...)
		for _, name := range names {
			file := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			inside, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			f := sourceFile{path: filepath.ToSlash(inside), text: string(text), test: strings.HasSuffix(name, "_test.go")}
			if !strings.HasPrefix(f.text, "// Code generated") && f.path != "integration/house_test.go" {
				all = append(all, f)
			}
		}
	}
	return all
}

// Files have one concept each: about 200 lines, and 700 is a redesign.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	const limit = 700
	for _, f := range sourceFiles(t) {
		if n := strings.Count(f.text, "\n"); n > limit {
			t.Errorf("%s has %d lines; above %d it is more than one file", f.path, n, limit)
		}
	}
}

// A package's name says what it owns; these say that nobody knows.
func TestPackageNames(t *testing.T) {
	t.Parallel()
	vague := regexp.MustCompile(`^(utils?|common|helpers?|types|base|misc|shared|managers?|lib)$`)
	for _, p := range listPackages(t) {
		if vague.MatchString(p.Name) || vague.MatchString(path.Base(p.ImportPath)) {
			t.Errorf("%s: a package is called by what it owns", p.name())
		}
	}
}

// There is no state outside of values that somebody made and passes on: two
// gateways in one process, or two tests at once, must not meet.
func TestNoPackageLevelState(t *testing.T) {
	t.Parallel()
	for _, f := range sourceFiles(t) {
		if f.test || strings.HasPrefix(f.path, "integration/") {
			continue
		}
		for _, fault := range packageState(t, f) {
			t.Errorf("%s: package-level variable %s may change", f.path, fault)
		}
	}
}

// packageState returns the names of package-level variables that can hold
// state: without a value (but for embedded files, and the version that the
// linker sets), or of a kind that is made to be changed.
func packageState(t *testing.T, f sourceFile) []string {
	t.Helper()
	parsed := parseFile(t, f)
	var names []string
	for _, d := range parsed.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, s := range group.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || mayStay(parsed.Name.Name, group, spec) {
				continue
			}
			for _, n := range spec.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

func mayStay(packageName string, group *ast.GenDecl, spec *ast.ValueSpec) bool {
	name := spec.Names[0].Name
	switch {
	case name == "_" || hasEmbed(group.Doc, spec.Doc):
		return true
	case packageName == "main" && name == "version":
		return true
	case strings.HasPrefix(strings.ToLower(name), "err") && len(spec.Values) > 0: // sentinel errors
		return true
	case isMutable(spec.Type):
		return false
	case len(spec.Values) == 0:
		return false
	}
	for _, v := range spec.Values {
		if isMutable(v) {
			return false
		}
	}
	return true
}

func hasEmbed(groups ...*ast.CommentGroup) bool {
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, "//go:embed") {
				return true
			}
		}
	}
	return false
}

// isMutable recognises what is made to be changed: maps, channels, what make
// and new return, pointers to literals, and the types of sync and sync/atomic.
func isMutable(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.MapType, *ast.ChanType, *ast.StarExpr:
		return true
	case *ast.CompositeLit:
		return isMutable(e.Type)
	case *ast.UnaryExpr:
		return e.Op == token.AND
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.Ident)
		return ok && (f.Name == "make" || f.Name == "new")
	case *ast.IndexExpr: // atomic.Pointer[T]
		return isMutable(e.X)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && (x.Name == "sync" || x.Name == "atomic")
	}
	return false
}

// Whoever starts goroutines shows in its tests that they end.
func TestGoroutinesAreCheckedForLeaks(t *testing.T) {
	t.Parallel()
	starts, checks := make(map[string]string), make(map[string]bool)
	for _, f := range sourceFiles(t) {
		dir := path.Dir(f.path)
		switch {
		case f.test:
			checks[dir] = checks[dir] || strings.Contains(f.text, "goleak.VerifyTestMain(")
		case strings.HasPrefix(dir, "integration/"):
		default:
			parsed := parseFile(t, f)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); ok && parsed.Name.Name != "main" {
					starts[dir] = f.path
				}
				return true
			})
		}
	}
	for dir, file := range starts {
		if !checks[dir] {
			t.Errorf("%s starts goroutines; the package's TestMain must call goleak.VerifyTestMain", file)
		}
	}
}

func parseFile(t *testing.T, f sourceFile) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

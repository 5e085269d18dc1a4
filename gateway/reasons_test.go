package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestReasonsAreDocumented finds the reasons by their spelling, in whichever
// way they get into a callError.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !reason.MatchString(text) {
				return true
			}
			found++
			if !strings.Contains(string(document), "`"+text+"`") {
				t.Errorf("%s: docs/errors.md does not tell of the reason %s", name, text)
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no reason found: are they written in another way now?")
	}
}

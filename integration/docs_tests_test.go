package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The documents prove what they say by naming tests and benchmarks. Each that
// they name is there: one that was renamed would leave a promise with nothing
// behind it.
func TestDocsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..")
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	// `TestX`, and `TestX*` for all that begin so.
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w*)(\\*?)[`/]")
	for _, document := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !isThere(there, m[1], m[2] == "*") {
				t.Errorf("%s names %s%s, which is not there", document, m[1], m[2])
			}
		}
	}
}

func isThere(there map[string]bool, name string, prefix bool) bool {
	if there[name] {
		return true
	}
	if prefix {
		for test := range there {
			if strings.HasPrefix(test, name) {
				return true
			}
		}
	}
	return false
}

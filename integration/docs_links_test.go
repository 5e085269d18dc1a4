package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Links between the documents lead to a file that is there, and to a heading in
// it, whose anchor is as GitHub makes it.
func TestDocsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, document := range append(documents, filepath.Join("..", "README.md"), filepath.Join("..", "CHANGELOG.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", document, m[1], err)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s: %s: no such heading", document, m[1])
			}
		}
	}
}

func hasHeading(t *testing.T, document, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

package integration_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMetricsAreDocumented finds the names of metrics by their spelling in the
// sources, in whichever way they get registered.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	root := ".."
	document, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`"(rpcgate_[a-z_]*[a-z])"`)
	noMetrics := map[string]bool{"rpcgate_pick_first": true} // a balancer policy
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules" || d.Name() == "bench"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range literal.FindAllStringSubmatch(string(source), -1) {
			if noMetrics[m[1]] {
				continue
			}
			found++
			if !strings.Contains(string(document), "`"+m[1]+"`") {
				t.Errorf("%s: docs/metrics.md does not tell of %s", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no metric found: are they named in another way now?")
	}
}

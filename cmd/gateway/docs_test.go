package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCommandsParse has each command line of the documents parsed by
// the command that it names: a flag that was renamed would leave a line that
// nobody can paste.
func TestDocumentedCommandsParse(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	found := 0
	for _, document := range append(documents, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range documentedCommands(string(text)) {
			found++
			if err := parses(commandWords(line)); err != nil {
				t.Errorf("%s: gateway %s: %v", document, line, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d command lines found: are they written in another way now?", found)
	}
}

var (
	commandInText = regexp.MustCompile("`(?:\\.bin/)?gateway ([a-z][^`]*)`")
	commandInCode = regexp.MustCompile(`^(?:[A-Z]+=\$\()?(?:(?:\.bin/)?gateway|go run \./cmd/gateway) ([a-z].*)$`)
)

// documentedCommands are what follows the program's name, in code, which is
// fenced or indented by four, and in text.
func documentedCommands(text string) []string {
	var lines []string
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "```") {
			fenced = !fenced
		}
		if m := commandInCode.FindStringSubmatch(bare); m != nil && (fenced || strings.HasPrefix(line, "    ")) {
			lines = append(lines, m[1])
		}
	}
	for _, m := range commandInText.FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// commandWords splits a line as a shell does, as far as documents need it: up to
// what is not the command's any more. Of alternatives (open|close) it is the first.
func commandWords(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		bare := m[3]
		switch {
		case bare == "":
			words = append(words, m[1]+m[2])
			continue
		case strings.ContainsAny(bare[:1], "|<>&#…"):
			return words
		}
		word, _, _ := strings.Cut(strings.TrimRight(bare, ",)"), "|")
		words = append(words, word)
		if strings.HasSuffix(bare, ")") {
			return words
		}
	}
	return words
}

func parses(words []string) error {
	root := newRoot(func(*slog.Logger) {})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(cmd.Flags().Args()) == 0 {
		return nil // `gateway app` speaks of all of them
	}
	if cmd.HasSubCommands() {
		return usagef("unknown command %q", cmd.Flags().Arg(0))
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

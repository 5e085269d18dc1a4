package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// sources are the files with the types: their comments are the reference.
//
//go:embed admin.go backend.go balancer.go config.go discovery.go ejection.go guessing.go headers.go limits.go listen.go metrics.go outcome.go overload.go retry.go route.go stores.go usage.go
var sources embed.FS

// comments reads the types' comments: "Backend" and "Backend.Name" to text,
// one line for each paragraph.
func comments() (map[string]string, error) {
	files, err := sources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, entry := range files {
		text, err := sources.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), text, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("comments of %s: %w", entry.Name(), err)
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				collectComments(g, found)
			}
		}
	}
	return found, nil
}

func collectComments(g *ast.GenDecl, found map[string]string) {
	for _, spec := range g.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		found[t.Name.Name] = plain(g.Doc)
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				found[t.Name.Name+"."+name.Name] = plain(f.Doc)
			}
		}
	}
}

// plain unwraps a comment's lines.
func plain(doc *ast.CommentGroup) string {
	paragraphs := strings.Split(strings.TrimSpace(doc.Text()), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n")
}

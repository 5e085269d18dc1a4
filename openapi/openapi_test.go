package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

var update = flag.Bool("update", false, "write testdata anew")

// compile compiles .proto files given as text, and serves all of their services.
func compile(tb testing.TB, text string) *routes.Descriptors {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test.proto"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return compileFiles(tb, dir, "test.proto")
}

func compileFiles(tb testing.TB, dir string, files ...string) *routes.Descriptors {
	tb.Helper()
	d, err := routes.CompileProto(tb.Context(), config.ProtoSources{Files: files, ImportPaths: []string{dir}})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// backend is a backend with the options that a config file without them gives.
func backend(name string, set ...func(*config.Backend)) config.Backend {
	b := config.Backend{
		Name: name, Annotations: true, Auth: "required",
		JSON: config.JSON{EmitDefaults: true, DiscardUnknown: true},
	}
	for _, s := range set {
		s(&b)
	}
	return b
}

func table(tb testing.TB, in []routes.Input, explicit ...config.Route) *routes.Table {
	tb.Helper()
	t, err := routes.Build(in, explicit)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func shopTable(tb testing.TB) *routes.Table {
	tb.Helper()
	d := compileFiles(tb, "../examples/shop/proto", "shop/user.proto", "shop/order.proto")
	return table(tb, []routes.Input{{Backend: backend("shop"), Descriptors: d}})
}

// load has an independent library read and validate a document.
func load(tb testing.TB, d *Document) *openapi3.T {
	tb.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(d.JSON())
	if err != nil {
		tb.Fatalf("%v\n%s", err, d.Indented())
	}
	if !doc.IsOpenAPI31OrLater() {
		tb.Fatalf("version %s", doc.OpenAPI)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		tb.Fatalf("%v\n%s", err, d.Indented())
	}
	sameYAML(tb, d)
	return doc
}

// sameYAML checks that the YAML says what the JSON does.
func sameYAML(tb testing.TB, d *Document) {
	tb.Helper()
	text, err := d.YAML()
	if err != nil {
		tb.Fatal(err)
	}
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(text, &fromYAML); err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	if err := json.Unmarshal(d.JSON(), &fromJSON); err != nil {
		tb.Fatalf("%v\n%s", err, d.JSON())
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(again, &fromYAML); err != nil {
		tb.Fatal(err)
	}
	if !reflect.DeepEqual(fromYAML, fromJSON) {
		tb.Errorf("the YAML differs:\n%s\n%s", text, d.JSON())
	}
}

// golden compares with a file of testdata.
func golden(tb testing.TB, name string, got []byte) {
	tb.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		tb.Errorf("%s differs (go test -update writes it anew):\n%s", file, firstDifference(string(got), string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}

func TestShop(t *testing.T) {
	d := New(shopTable(t), Options{Servers: []Server{{URL: "/"}}})
	load(t, d)
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.yaml", text)
}

func TestSameBytes(t *testing.T) {
	o := Options{Title: "x", Servers: []Server{{URL: "http://{host}:8080", Variables: []Variable{{Name: "host", Default: "localhost"}}}}}
	first := New(shopTable(t), o)
	for range 5 {
		d := New(shopTable(t), o)
		if !bytes.Equal(first.JSON(), d.JSON()) {
			t.Fatalf("the same table gives\n%s\nand\n%s", first.JSON(), d.JSON())
		}
	}
}

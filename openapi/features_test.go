package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

func featuresTable(tb testing.TB, set ...func(*config.Backend)) *routes.Table {
	tb.Helper()
	d := compileFiles(tb, "testdata", "features.proto")
	return table(tb, []routes.Input{{Backend: backend("features", set...), Descriptors: d}},
		config.Route{Method: "features.Open/Say", Auth: "none"})
}

func TestFeatures(t *testing.T) {
	d := New(featuresTable(t, func(b *config.Backend) { b.Forms = true }), Options{Title: "Features", Version: "1"})
	load(t, d)
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "features.yaml", text)
	if d.Omitted() != nil {
		t.Errorf("omitted %q", d.Omitted())
	}
}

// How errors look, and that envelopes hold answers too.
func TestErrorFormats(t *testing.T) {
	for _, tt := range []struct {
		options, backend    string
		response, mediaType string
		answerHas           string // a property of the answer
	}{
		{"", "", "Error", mediaJSON, "title"},
		{"problem", "", "Problem", mediaProblem, "title"},
		{"problem", "status", "Error", mediaJSON, "title"},
		{"status", "envelope", "Envelope", mediaJSON, "data"},
	} {
		t.Run(tt.options+"/"+tt.backend, func(t *testing.T) {
			doc := load(t, New(featuresTable(t, func(b *config.Backend) { b.Errors = tt.backend }), Options{Errors: tt.options}))
			op := doc.Paths.Value("/v1/shelves/{shelve}/books/{book}").Get
			fault := op.Responses.Default()
			if fault.Ref != "#/components/responses/"+tt.response || fault.Value.Content[tt.mediaType] == nil {
				t.Errorf("errors are %s: %v", fault.Ref, fault.Value.Content)
			}
			answer := op.Responses.Value("200").Value.Content[mediaJSON].Schema.Value
			if answer.Properties[tt.answerHas] == nil {
				t.Errorf("the answer has no %s", tt.answerHas)
			}
		})
	}
}

func TestSecurity(t *testing.T) {
	doc := load(t, New(featuresTable(t), Options{}))
	if len(doc.Security) != 3 || len(doc.Components.SecuritySchemes) != 4 {
		t.Errorf("security %v, schemes %v", doc.Security, doc.Components.SecuritySchemes)
	}
	if s := doc.Paths.Value("/v1/say").Post.Security; s == nil || len(*s) != 0 {
		t.Errorf("a route that is open to everybody needs %v", s)
	}
	if s := doc.Paths.Value("/v1/books").Get.Security; s != nil {
		t.Errorf("another has its own: %v", s)
	}
	operators := load(t, New(featuresTable(t), Options{Token: "An operator's token."}))
	if s := operators.Components.SecuritySchemes; len(operators.Security) != 2 || len(s) != 2 || s["bearer"].Value.BearerFormat != "" || s["certificate"] == nil {
		t.Errorf("operators: security %v, schemes %v", operators.Security, s)
	}
	open := load(t, New(featuresTable(t, func(b *config.Backend) { b.Auth = "none" }), Options{}))
	if open.Security != nil || open.Components.SecuritySchemes != nil {
		t.Error("no route needs a credential, but the document says how to give it")
	}
}

// What is the same path to OpenAPI has one path item, whatever the variables
// are called; of what is the very same operation, the first counts.
func TestPathsOfOneShape(t *testing.T) {
	d := compile(t, `syntax = "proto3"; package p; message T { int32 a = 1; string b = 2; } service S { rpc M(T) returns (T); rpc N(T) returns (T); }`)
	rule := func(method string, rule config.HTTPRule) config.Route {
		return config.Route{Method: method, HTTP: &rule}
	}
	document := New(table(t, []routes.Input{{Backend: backend("b"), Descriptors: d}},
		rule("p.S/M", config.HTTPRule{Get: "/x/{a}"}),
		rule("p.S/N", config.HTTPRule{Post: "/x/{b}", Body: "*"}),
		rule("p.S/N", config.HTTPRule{Get: "/x/{b=**}"}),
		rule("p.S/N", config.HTTPRule{Custom: &config.CustomRule{Kind: "PURGE", Path: "/x/{b}"}}),
		rule("p.S/N", config.HTTPRule{Custom: &config.CustomRule{Kind: "get", Path: "/x/{b}"}}),
		rule("p.S/N", config.HTTPRule{Get: "/"}),
		rule("p.S/N", config.HTTPRule{Get: "/with%20space/{b}/{a}:go%7Bn%7D"}),
	), Options{})
	doc := load(t, document)
	if got, want := doc.Paths.InMatchingOrder(), []string{"/x/{a}", "/", "/with%20space/{b}/{a}:go%7Bn%7D"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("paths %q", got)
	}
	post := doc.Paths.Value("/x/{a}").Post
	if p := post.Parameters[0].Value; p.Name != "a" || !p.Schema.Value.Type.Is("string") || !strings.Contains(p.Description, "`b`") {
		t.Errorf("the second route's parameter: %+v", p)
	}
	if body := post.RequestBody.Value.Content[mediaJSON].Schema.Value; body.Properties["b"] != nil || body.Properties["a"] == nil {
		t.Errorf("its body has %v", body.Properties)
	}
	want := []string{
		"GET /x/{b=**}: another route looks the same in OpenAPI, GET /x/{a}",
		"PURGE /x/{b}: OpenAPI has no such HTTP method",
		"get /x/{b}: OpenAPI has no such HTTP method",
	}
	if !slices.Equal(document.Omitted(), want) {
		t.Errorf("omitted %q", document.Omitted())
	}
}

func TestOperationIDsAreUnique(t *testing.T) {
	d := compile(t, `syntax = "proto3"; package p; message T {} service S { rpc M(T) returns (T); rpc M_2(T) returns (T); }`)
	doc := load(t, New(table(t, []routes.Input{{Backend: backend("b"), Descriptors: d}},
		config.Route{Method: "p.S/M", HTTP: &config.HTTPRule{Get: "/a", AdditionalBindings: []config.HTTPRule{{Get: "/b"}, {Get: "/c"}}}},
		config.Route{Method: "p.S/M_2", HTTP: &config.HTTPRule{Get: "/d"}},
	), Options{}))
	ids := make(map[string]bool)
	for _, item := range doc.Paths.Map() {
		ids[item.Get.OperationID] = true
	}
	if len(ids) != 4 || !ids["p.S.M"] {
		t.Errorf("got %v", ids)
	}
}

// A request with more fields than anybody would list, in messages inside
// messages, has a bounded list of query parameters.
func TestQueryIsBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(`syntax = "proto3"; package p; service S { rpc M(A) returns (B); } message B {} message A { A again = 1; C c = 2; `)
	for i := range 400 {
		fmt.Fprintf(&text, "int32 f%d = %d;\n", i, i+10)
	}
	text.WriteString("} message C { D d = 1; A a = 2; C c = 3; } message D { E e = 1; } message E { F f = 1; } message F { G g = 1; int32 there = 2; } message G { int32 beyond = 1; }")
	doc := load(t, New(table(t, []routes.Input{{Backend: backend("b"), Descriptors: compile(t, text.String())}},
		config.Route{Method: "p.S/M", HTTP: &config.HTTPRule{Get: "/"}}), Options{}))
	op := doc.Paths.Value("/").Get
	if len(op.Parameters) != maxParameters || !strings.Contains(op.Description, "145 more fields of `p.A`") {
		t.Errorf("%d parameters; %s", len(op.Parameters), op.Description)
	}
	if op.Parameters[0].Value.Name != "c.d.e.f.there" || op.Parameters[1].Value.Name != "f0" {
		t.Errorf("%s, %s", op.Parameters[0].Value.Name, op.Parameters[1].Value.Name)
	}
}

// Beyond the room that a document has, operations are left out and schemas
// allow anything; it stays valid.
func TestSizeIsBounded(t *testing.T) {
	b := newBuilder(featuresTable(t), Options{Title: "x"})
	b.room = 6000
	for _, r := range b.table.Routes() {
		if r.HTTPMethod != "" {
			b.add(r)
		}
	}
	d := &Document{root: b.document("1"), omitted: b.omitted}
	d.json = appendJSON(nil, d.root)
	doc := load(t, d)
	if doc.Paths.Len() == 0 || len(d.Omitted()) == 0 || !strings.Contains(d.Omitted()[0], "would be larger") {
		t.Errorf("%d paths, omitted %q", doc.Paths.Len(), d.Omitted())
	}
	if n := len(d.JSON()); n > 12000 {
		t.Errorf("%d bytes", n)
	}
}

func TestOmittedIsBounded(t *testing.T) {
	b := newBuilder(featuresTable(t), Options{})
	r := b.table.Routes()[0]
	for range 2 * maxOmitted {
		b.omit(r, "x")
	}
	if len(b.omitted) != maxOmitted || b.omitted[maxOmitted-1] != "and more" {
		t.Errorf("%d, the last is %q", len(b.omitted), b.omitted[len(b.omitted)-1])
	}
}

func TestEmptyTable(t *testing.T) {
	doc := load(t, New(table(t, nil), Options{}))
	if doc.Paths.Len() != 0 {
		t.Errorf("paths %v", doc.Paths)
	}
}

// Recursion ends in a reference.
func TestRecursion(t *testing.T) {
	doc := load(t, New(featuresTable(t), Options{}))
	book := doc.Components.Schemas["features.Book"].Value
	if ref := book.Properties["sequels"].Value.Items.Ref; ref != "#/components/schemas/features.Book" {
		t.Errorf("sequels are %q", ref)
	}
}

// Each JSON option changes the schemas as it changes the JSON.
func TestJSONOptions(t *testing.T) {
	book := func(t *testing.T, o config.JSON) (*openapi3.Schema, *openapi3.T) {
		t.Helper()
		doc := load(t, New(featuresTable(t, func(b *config.Backend) { b.JSON = o }), Options{}))
		return doc.Components.Schemas["features.Book"].Value, doc
	}
	for name, tt := range map[string]struct {
		json config.JSON
		id   string // type of an int64
		enum string
		size string // name of page_size
	}{
		"none":    {config.JSON{}, "string", "string", "pageSize"},
		"numbers": {config.JSON{Int64AsNumbers: true, EnumsAsNumbers: true}, "integer", "integer", "pageSize"},
		"names":   {config.JSON{UseProtoNames: true}, "string", "string", "page_size"},
	} {
		t.Run(name, func(t *testing.T) {
			schema, doc := book(t, tt.json)
			if !schema.Properties["id"].Value.Type.Is(tt.id) {
				t.Errorf("an int64 is %v", schema.Properties["id"].Value.Type)
			}
			if g := doc.Components.Schemas["features.Genre"].Value; !g.Type.Is(tt.enum) {
				t.Errorf("an enum is %v", g.Type)
			}
			if p := doc.Paths.Value("/v1/books").GetOperation(http.MethodGet).Parameters.GetByInAndName("query", tt.size); p == nil {
				t.Errorf("no parameter %s", tt.size)
			}
		})
	}
}

// Methods without a route over HTTP are there as Connect has them; those with
// one are not there twice, and streams not at all.
func TestConnect(t *testing.T) {
	d := compile(t, `syntax = "proto3"; package p; import "google/api/httpbody.proto"; message T { string a = 1; }
		service S { rpc Plain(T) returns (T); rpc Routed(T) returns (T); rpc Stream(T) returns (stream T); rpc Raw(google.api.HttpBody) returns (google.api.HttpBody); }`)
	tab := table(t, []routes.Input{{Backend: backend("b", func(b *config.Backend) { b.Errors = "envelope" }), Descriptors: d}},
		config.Route{Method: "p.S/Routed", HTTP: &config.HTTPRule{Get: "/routed"}})
	doc := load(t, New(tab, Options{Connect: true}))
	if got := slices.Sorted(slices.Values(doc.Paths.InMatchingOrder())); !slices.Equal(got, []string{"/p.S/Plain", "/p.S/Raw", "/routed"}) {
		t.Errorf("paths %q", got)
	}
	op := doc.Paths.Value("/p.S/Plain").Post
	if ref := op.Responses.Default().Ref; ref != "#/components/responses/ConnectError" {
		t.Errorf("errors are %s", ref)
	}
	if ref := op.Responses.Value("200").Value.Content[mediaJSON].Schema.Ref; ref != "#/components/schemas/p.T" {
		t.Errorf("the answer is %q", ref)
	}
	raw := doc.Paths.Value("/p.S/Raw").Post
	if ref := raw.RequestBody.Value.Content[mediaJSON].Schema.Ref; ref != "#/components/schemas/google.api.HttpBody" {
		t.Errorf("a raw body is %q", ref)
	}
	if doc := load(t, New(tab, Options{})); doc.Paths.Len() != 1 {
		t.Errorf("without Connect: %q", doc.Paths.InMatchingOrder())
	}
	doc = load(t, New(tab, Options{WithoutJSON: true, Connect: true}))
	if got := slices.Sorted(slices.Values(doc.Paths.InMatchingOrder())); !slices.Equal(got, []string{"/p.S/Plain", "/p.S/Raw", "/p.S/Routed"}) {
		t.Errorf("Connect alone: paths %q", got)
	}
}

package openapi

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

const editionsProto = `edition = "2023";
package ed;
option features.field_presence = IMPLICIT;
service Editions { rpc Echo(M) returns (M); }
message M {
  int32 implicit = 1;
  int32 explicit = 2 [features.field_presence = EXPLICIT];
  M sub = 3 [features.message_encoding = DELIMITED];
  repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED];
  enum Closed { option features.enum_type = CLOSED; ONE = 1; TWO = 2; }
  Closed closed = 5 [features.field_presence = EXPLICIT];
  int32 needed = 6 [features.field_presence = LEGACY_REQUIRED];
}
`

// torture is everything that messages can hold: proto3, proto2 and editions.
func torture(tb testing.TB) *routes.Descriptors {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range map[string]string{
		"ed.proto":         editionsProto,
		"everything.proto": readFile(tb, "../transcode/testdata/everything.proto"),
		"old.proto":        readFile(tb, "../transcode/testdata/old.proto"),
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return compileFiles(tb, dir, "ed.proto", "everything.proto", "old.proto")
}

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

var jsonOptions = []struct {
	name string
	set  config.JSON
}{
	{"defaults", config.JSON{EmitDefaults: true}},
	{"terse", config.JSON{}},
	{"proto names", config.JSON{UseProtoNames: true, EmitDefaults: true}},
	{"numbers", config.JSON{Int64AsNumbers: true, EnumsAsNumbers: true, EmitDefaults: true}},
}

// Whatever a backend may answer, the document allows, as the gateway writes it.
func TestAnswersAreAsDescribed(t *testing.T) {
	descriptors := torture(t)
	const rounds = 300
	for _, opts := range jsonOptions {
		t.Run(opts.name, func(t *testing.T) {
			tab := table(t, []routes.Input{{Backend: backend("b", func(b *config.Backend) {
				b.JSON, b.DefaultBinding = opts.set, true
			}), Descriptors: descriptors}})
			d := New(tab, Options{})
			load(t, d)
			schemas := compiler(t, d)
			for _, r := range tab.Routes() {
				if r.HTTPMethod == "" {
					continue
				}
				schema, err := schemas.Compile(documentURL + "#/paths/" + strings.ReplaceAll(r.Template, "/", "~1") +
					"/post/responses/200/content/application~1json/schema")
				if err != nil {
					t.Fatal(err)
				}
				g := generator{rand: rand.New(rand.NewPCG(1, 2))}
				for range rounds {
					m := dynamicpb.NewMessage(r.Descriptor.Output())
					g.fill(m, 3)
					wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					answer, err := r.Transcoder.AppendResponse(nil, wire)
					if err != nil {
						continue // what has no JSON form, such as a duration beyond its bounds
					}
					value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
					if err != nil {
						t.Fatal(err)
					}
					if err := schema.Validate(value); err != nil {
						t.Fatalf("%s: %v\n%s", r, err, answer)
					}
				}
			}
		})
	}
}

const documentURL = "https://example.com/openapi.json"

// compiler compiles the schemas of a document.
func compiler(tb testing.TB, d *Document) *jsonschema.Compiler {
	tb.Helper()
	c := jsonschema.NewCompiler() // of the 2020-12 dialect, which is OpenAPI 3.1's
	c.AssertFormat()
	c.AssertContent()
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.JSON()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.AddResource(documentURL, root); err != nil {
		tb.Fatal(err)
	}
	return c
}

// generator makes messages at random.
type generator struct{ rand *rand.Rand }

func (g *generator) fill(m protoreflect.Message, depth int) {
	if g.special(m) {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		required := fd.Cardinality() == protoreflect.Required
		if !required && g.rand.IntN(3) > 0 || fd.Message() != nil && depth == 0 && !required {
			continue
		}
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for range g.rand.IntN(3) {
				value := entries.NewValue()
				if fd.MapValue().Message() != nil {
					g.fill(value.Message(), depth-1)
				} else {
					value = g.scalar(fd.MapValue())
				}
				entries.Set(g.scalar(fd.MapKey()).MapKey(), value)
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range g.rand.IntN(3) {
				if fd.Message() != nil {
					g.fill(list.AppendMutable().Message(), depth-1)
				} else {
					list.Append(g.scalar(fd))
				}
			}
		case fd.Message() != nil:
			g.fill(m.Mutable(fd).Message(), depth-1)
		default:
			m.Set(fd, g.scalar(fd))
		}
	}
}

// special fills messages of which not all values have a JSON form.
func (g *generator) special(m protoreflect.Message) bool {
	fields := m.Descriptor().Fields()
	switch m.Descriptor().FullName() {
	case "google.protobuf.Any":
		if g.rand.IntN(2) == 0 {
			m.Set(fields.ByName("type_url"), protoreflect.ValueOfString("type.googleapis.com/google.protobuf.Duration"))
		}
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(g.rand.Int64N(1e9)))
		m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(g.rand.Int32N(1e9)))
	case "google.protobuf.FieldMask":
		m.Mutable(fields.ByName("paths")).List().Append(protoreflect.ValueOfString("a.b_c"))
	case "google.protobuf.Value":
		m.Set(fields.ByName("bool_value"), protoreflect.ValueOfBool(true))
	default:
		return false
	}
	return true
}

func (g *generator) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := g.rand.Uint64() >> g.rand.IntN(64)
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat("é", int(n%4)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(n), 0xff})
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(int(n % uint64(values.Len()))).Number())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(g.float()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(g.float())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	default:
		return protoreflect.ValueOfInt64(int64(n))
	}
}

func (g *generator) float() float64 {
	zero := 0.0
	switch g.rand.IntN(6) {
	case 0:
		return zero / zero
	case 1:
		return 1 / zero
	case 2:
		return -1 / zero
	default:
		return g.rand.NormFloat64()
	}
}

// Two backends that mean different things by one name, or write it otherwise,
// have components of their own; what they have in common is there once.
func TestNamesOfSeveralBackends(t *testing.T) {
	const common = `syntax = "proto3"; package p; message Same { string a = 1; } message Uses { Other o = 1; } message Reply { Uses u = 1; Same s = 2; } `
	services := `service S { rpc M(Same) returns (Reply); }`
	a := compile(t, common+`message Other { string x = 1; }`+services)
	b := compile(t, common+`message Other { int32 x = 1; }`+services)
	tab := table(t, []routes.Input{
		{Backend: backend("a"), Descriptors: a},
		{Backend: backend("b/2"), Descriptors: b},
	}, config.Route{Method: "p.S/M", Backend: "a", HTTP: &config.HTTPRule{Get: "/a"}},
		config.Route{Method: "p.S/M", Backend: "b/2", HTTP: &config.HTTPRule{Get: "/b"}},
		config.Route{Method: "p.S/M", Backend: "a", Auth: "none"})
	doc := load(t, New(tab, Options{}))
	var keys []string
	for key := range doc.Components.Schemas {
		keys = append(keys, key)
	}
	for _, want := range []string{"p.Same", "p.Other", "p.Uses", "p.Reply", "p.Other-b_2", "p.Uses-b_2", "p.Reply-b_2"} {
		if doc.Components.Schemas[want] == nil {
			t.Errorf("no %s among %q", want, keys)
		}
	}
	if doc.Components.Schemas["p.Same-b_2"] != nil {
		t.Error("what is the same is there twice")
	}
	reply := doc.Paths.Value("/b").GetOperation(http.MethodGet).Responses.Value("200").Value.Content[mediaJSON].Schema
	if reply.Ref != "#/components/schemas/p.Reply-b_2" {
		t.Errorf("b's answer is %s", reply.Ref)
	}
	if got := doc.Paths.Value("/b").GetOperation(http.MethodGet).OperationID; got != "p.S.M_2" {
		t.Errorf("operation %s", got)
	}
}

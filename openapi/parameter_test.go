package openapi

import (
	"net/url"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/transcode"
)

// What the document says a query can set, the gateway takes from one, where it
// refuses all that it does not know.
func TestQueryParametersAreTaken(t *testing.T) {
	for _, opts := range jsonOptions {
		t.Run(opts.name, func(t *testing.T) {
			tab := table(t, []routes.Input{{Backend: backend("b", func(b *config.Backend) { b.JSON = opts.set }), Descriptors: torture(t)}},
				config.Route{Method: "everything.Service/Echo", HTTP: &config.HTTPRule{Get: "/everything/{int32_value}/{sub.string_value}"}},
				config.Route{Method: "everything.Service/EchoClashing", HTTP: &config.HTTPRule{Get: "/clashing"}},
				config.Route{Method: "old.Service/EchoTwins", HTTP: &config.HTTPRule{Get: "/twins"}},
				config.Route{Method: "ed.Editions/Echo", HTTP: &config.HTTPRule{Get: "/ed/{needed}"}},
			)
			b := newBuilder(tab, Options{})
			for _, r := range tab.Routes() {
				if r.HTTPMethod == "" {
					continue
				}
				var vars []string
				var bound []fieldPath
				for _, name := range map[string][]string{"/ed/{needed}": {"needed"}, "/everything/{int32_value}/{sub.string_value}": {"int32_value", "sub.string_value"}}[r.Template] {
					vars = append(vars, "1")
					bound = append(bound, findField(r.Descriptor.Input(), name))
				}
				fields, _ := b.backend(r).textFields(r.Descriptor.Input(), bound)
				if len(fields) == 0 {
					t.Errorf("%s has no parameters", r)
				}
				without, err := r.Transcoder.AppendRequest(nil, transcode.Input{Vars: vars})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range fields {
					query := url.Values{}
					name, value := sample(f)
					query.Set(name, value)
					wire, err := r.Transcoder.AppendRequest(nil, transcode.Input{Vars: vars, Query: query.Encode()})
					if err != nil {
						t.Errorf("%s?%s: %v", r, query.Encode(), err)
					} else if len(wire) <= len(without) {
						t.Errorf("%s?%s sets nothing", r, query.Encode())
					}
				}
			}
		})
	}
}

// sample gives the name and the value of a query parameter that sets a field.
func sample(f textField) (name, value string) {
	fd := f.path.leaf()
	switch {
	case f.asJSON:
		return f.name, "{}"
	case fd.IsMap():
		return f.name + "[" + sampleOf(fd.MapKey()) + "]", sampleOf(fd.MapValue())
	default:
		return f.name, sampleOf(fd)
	}
}

func sampleOf(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true"
	case protoreflect.BytesKind:
		return "AQ=="
	case protoreflect.EnumKind:
		return string(fd.Enum().Values().Get(0).Name())
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Timestamp":
			return "2006-01-02T15:04:05Z"
		case "google.protobuf.Duration":
			return "1.5s"
		case "google.protobuf.FieldMask":
			return "a,b"
		default:
			return sampleOf(fd.Message().Fields().ByName("value"))
		}
	default:
		return "1"
	}
}

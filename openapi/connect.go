package openapi

import (
	"net/http"

	"github.com/rpcgate/rpcgate/routes"
)

// errorsConnect is how errors look to Connect's callers.
const errorsConnect = "connect"

// connectRoutes gives, for the unary methods that are not reached otherwise, the
// route that Connect has: its unary calls with JSON are plain POSTs.
// Streams of Connect are framed, which is nothing that OpenAPI could describe.
func connectRoutes(t *routes.Table, reached map[string]bool) []*routes.Route {
	var found []*routes.Route
	for _, r := range t.Routes() {
		if r.HTTPMethod != "" || reached[r.FullMethod] || r.ClientStreams || r.ServerStreams || r.Transcoder == nil {
			continue
		}
		post := *r
		post.HTTPMethod, post.Template, post.Body = http.MethodPost, r.FullMethod, "*"
		post.Forms, post.Errors = false, errorsConnect
		found = append(found, &post)
	}
	return found
}

func connectErrorSchema() object {
	return object{
		{"type", "object"},
		{"description", "An error as Connect has it."},
		{"properties", object{
			{"code", object{{"type", "string"}, {"description", "The name of the gRPC code in small letters: not_found."}}},
			{"message", object{{"type", "string"}}},
			{"details", object{
				{"type", "array"},
				{"items", object{
					{"type", "object"},
					{"properties", object{
						{"type", object{{"type", "string"}, {"description", "The full name of the detail's message."}}},
						{"value", object{{"type", "string"}, {"description", "The message in protobuf, as base64 without padding."}}},
						{"debug", object{{"description", "The same as JSON."}}},
					}},
				}},
			}},
		}},
		{"required", texts("code")},
	}
}

package openapi

// How errors look, as config has it: http.errors.
const (
	errorsStatus   = "status"
	errorsProblem  = "problem"
	errorsEnvelope = "envelope"
)

// errorResponse gives the name of the component that describes how errors look,
// which it adds to the document when it is first asked for.
func (b *builder) errorResponse(format string) string {
	name := "Error"
	switch format {
	case errorsProblem:
		name = "Problem"
	case errorsEnvelope:
		name = "Envelope"
	case errorsConnect:
		name = "ConnectError"
	}
	if b.responses.get(name) != nil {
		return name
	}
	media, schema := mediaJSON, object(nil)
	switch format {
	case errorsProblem:
		media, schema = mediaProblem, b.own("rpcgate.Problem", problemSchema())
	case errorsEnvelope:
		schema = b.own("rpcgate.Envelope", envelopeSchema())
	case errorsConnect:
		schema = b.own("rpcgate.ConnectError", connectErrorSchema())
	default:
		schema = b.own("google.rpc.Status", statusSchema())
	}
	b.responses.set(name, object{
		{"description", errorText},
		{"headers", object{
			{"Retry-After", object{
				{"description", "Where waiting helps: for how many seconds."},
				{"schema", object{{"type", "integer"}, {"minimum", 0}}},
			}},
			{"RateLimit", header("With limits, of successes too: how many calls are left (r), and in how many seconds there are more (t).")},
			{"RateLimit-Policy", header("With limits, of successes too: how many calls (q) may be made in how many seconds (w).")},
		}},
		{"content", object{{media, mediaOf(schema)}}},
	})
	return name
}

func header(description string) object {
	return object{{"description", description}, {"schema", object{{"type", "string"}}}}
}

const errorText = "It failed. The HTTP status goes with the gRPC code; a call beyond a limit has 429. What the gateway itself refuses has a `google.rpc.ErrorInfo` " +
	"with `domain: rpcgate` and a `reason` in capitals among its `details`; everything else is the backend's."

// own gives a reference to a schema of the gateway's own, which it adds to the
// document when it is first asked for.
func (b *builder) own(name string, schema object) object {
	id := componentID{"", fullName(name)}
	c, ok := b.components[id]
	if !ok {
		c = &component{name: fullName(name), key: name, schema: schema}
		b.components[id] = c
		b.order = append(b.order, c)
	}
	return object{{"$ref", c}}
}

// details is the schema of an error's details.
func details() object {
	return object{
		{"type", "array"},
		{"description", "More about the error: messages of google.rpc, or the backend's own."},
		{"items", object{
			{"type", "object"},
			{"properties", object{{"@type", object{{"type", "string"}}}}},
			{"additionalProperties", true},
		}},
	}
}

func statusSchema() object {
	return object{
		{"type", "object"},
		{"description", "An error, as gRPC has it."},
		{"properties", object{
			{"code", object{{"type", "integer"}, {"format", "int32"}, {"description", "The gRPC code (google.rpc.Code)."}}},
			{"message", object{{"type", "string"}}},
			{"details", details()},
		}},
		{"required", texts("code", "message")},
	}
}

func problemSchema() object {
	return object{
		{"type", "object"},
		{"description", "An error as RFC 9457 has it."},
		{"properties", object{
			{"type", object{{"type", "string"}, {"format", "uri-reference"}}},
			{"title", object{{"type", "string"}}},
			{"status", object{{"type", "integer"}, {"description", "The HTTP status."}}},
			{"detail", object{{"type", "string"}}},
			{"code", object{{"type", "string"}, {"description", "The name of the gRPC code (google.rpc.Code)."}}},
			{"reason", object{{"type", "string"}, {"description", "That of the google.rpc.ErrorInfo among the details."}}},
			{"details", details()},
		}},
		{"required", texts("title", "status", "detail", "code")},
	}
}

func envelopeSchema() object {
	return object{
		{"type", "object"},
		{"description", "An error, in the same form as answers."},
		{"properties", object{
			{"code", object{{"type", "integer"}, {"description", "The gRPC code; 0 is of answers alone."}}},
			{"msg", object{{"type", "string"}}},
			{"data", object{
				{"type", texts("object", "null")},
				{"properties", object{
					{"reason", object{{"type", "string"}, {"description", "That of the google.rpc.ErrorInfo among the details."}}},
					{"details", details()},
				}},
			}},
		}},
		{"required", texts("code", "msg", "data")},
	}
}

// envelopeOf is the schema of an answer in an envelope.
func envelopeOf(schema object) object {
	return object{
		{"type", "object"},
		{"properties", object{
			{"code", object{{"type", "integer"}, {"const", 0}}},
			{"msg", object{{"type", "string"}}},
			{"data", schema},
		}},
		{"required", texts("code", "msg", "data")},
	}
}

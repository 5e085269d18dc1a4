package openapi

import (
	"cmp"
	"net/http"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/routes"
)

// operation describes one route. names are the parameters' in its path.
func (b *builder) operation(r *routes.Route, p path, names []string, id string) object {
	s := b.backend(r)
	m := r.Descriptor
	input := m.Input()
	var bound []fieldPath
	for _, part := range p.parts {
		if part.variable == "" {
			continue
		}
		if f := findField(input, part.variable); f != nil {
			bound = append(bound, f)
		}
	}
	parameters := s.pathParameters(input, p, names)
	var note string
	if r.Body != "*" {
		elsewhere := bound
		if body := findField(input, r.Body); r.Body != "" && body != nil {
			elsewhere = append(elsewhere, body)
		}
		var query array
		query, note = s.queryParameters(input, elsewhere)
		parameters = append(parameters, query...)
	}
	text := s.comment(m.FullName())
	summary := summarize(text)
	if oneLine(text) == summary || oneLine(text) == summary+"." {
		text = ""
	}
	if r.HTTPMethod == "*" {
		note = paragraphs(note, "Any HTTP method leads here.")
	}
	if r.HTTPMethod == http.MethodPatch && r.Body != "*" && r.Body != "" && hasFieldMask(input) {
		note = paragraphs(note, "An update mask that is not given is made of the fields that the body has.")
	}
	if r.ClientStreams || r.ServerStreams {
		b.streams = true
	}

	op := object{{"tags", texts(string(m.Parent().FullName()))}}
	op.setText("summary", summary)
	op.setText("description", paragraphs(text, note))
	op.set("operationId", id)
	op.setArray("parameters", parameters)
	if body := s.requestBody(r, bound); body != nil {
		op.set("requestBody", body)
	}
	errors := cmp.Or(r.Errors, b.options.Errors, errorsStatus)
	op.set("responses", object{
		{"200", s.answer(r, errors)},
		{"default", object{{"$ref", "#/components/responses/" + b.errorResponse(errors)}}},
	})
	op.setTrue("deprecated", isDeprecated(m) || isDeprecated(m.Parent()))
	if r.AuthNone {
		op.set("security", array{})
	}
	return op
}

func hasFieldMask(md protoreflect.MessageDescriptor) bool {
	for i := range md.Fields().Len() {
		if m := md.Fields().Get(i).Message(); m != nil && m.FullName() == "google.protobuf.FieldMask" {
			return true
		}
	}
	return false
}

// streamsText says once what holds for all streams. OpenAPI 3.1 has no way to
// describe the items of a stream.
const streamsText = "**Streams** are one JSON value a line (`application/x-ndjson`), a JSON array of them (`application/json`), or, " +
	"of answers, events whose data is one JSON value each (`text/event-stream`). The schema of the first and the last " +
	"is that of one value. A failure after the first message is the stream's last value: an object with the error under " +
	"`error` (an envelope where answers are envelopes), or an event named `error`; an array is left open then, and the connection " +
	"cut off. Events end with one named `end`. A WebSocket opened at a stream's path carries the messages both ways, one JSON value a frame."

// jsonText says what holds for all JSON.
const jsonText = "**JSON** is that of the protobuf JSON mapping. Requests may also give a field by its name in the .proto file, " +
	"64-bit integers as numbers or strings, enum values as names or numbers, and null for what is not set; the schemas " +
	"have the form of the answers. An enum value that the descriptors do not know is its number in an answer."

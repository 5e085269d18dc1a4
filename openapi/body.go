package openapi

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/routes"
)

// Media types of bodies.
const (
	mediaJSON    = "application/json"
	mediaLines   = "application/x-ndjson"
	mediaEvents  = "text/event-stream"
	mediaForm    = "application/x-www-form-urlencoded"
	mediaProblem = "application/problem+json"
	mediaAny     = "*/*"
)

// requestBody describes a route's body; nil: it has none.
func (s *schemas) requestBody(r *routes.Route, bound []fieldPath) object {
	if r.Body == "" {
		return nil
	}
	input := r.Descriptor.Input()
	message, schema := input, object(nil) // what the body holds
	var text string
	if r.Body == "*" {
		if !isRaw(r, input) {
			schema = s.wholeBody(input, bound)
		}
	} else {
		path := findField(input, r.Body)
		if path == nil {
			return nil
		}
		fd := path.leaf()
		text = s.comment(fd.FullName())
		message = nil
		if !fd.IsList() && !fd.IsMap() {
			message = fd.Message()
		}
		schema = s.fieldValue(fd)
	}
	if isRaw(r, message) {
		return withDescription(paragraphs(text, "Any bytes, of any media type."), object{{mediaAny, object{}}})
	}
	content := object{{mediaJSON, mediaOf(schema)}}
	if r.ClientStreams {
		text = paragraphs(text, "A stream of messages.")
		content = object{
			{mediaLines, mediaOf(schema)},
			{mediaJSON, mediaOf(object{{"type", "array"}, {"items", schema}})},
		}
	}
	if r.Forms && message != nil && !isWellKnown(message) && !r.ClientStreams {
		content.set(mediaForm, s.form(message, inside(r, bound)))
	}
	return withDescription(text, content)
}

// isRaw tells whether a message, nil for what is none, stands for the bare body.
// To RPC protocols it is a message like any other.
func isRaw(r *routes.Route, md protoreflect.MessageDescriptor) bool {
	return md != nil && md.FullName() == httpBody && r.Errors != errorsConnect
}

// wholeBody is the schema of a body that is the whole message. What the path
// binds need not be repeated in it.
func (s *schemas) wholeBody(md protoreflect.MessageDescriptor, bound []fieldPath) object {
	if _, ok := s.wellKnown(md); ok {
		return s.message(md)
	}
	without := make(map[protoreflect.FieldNumber]bool)
	for _, b := range bound {
		if len(b) == 1 {
			without[b[0].Number()] = true
		}
	}
	if len(without) == 0 {
		return s.message(md)
	}
	return s.objectOf(md, without)
}

// inside gives what is bound inside the body's field, as paths from there on.
func inside(r *routes.Route, bound []fieldPath) []fieldPath {
	if r.Body == "*" {
		return bound
	}
	body := findField(r.Descriptor.Input(), r.Body)
	var rest []fieldPath
	for _, b := range bound {
		if len(b) > len(body) && b.within(body) {
			rest = append(rest, b[len(body):])
		}
	}
	return rest
}

// form describes a message as a form. Its names are those of a query.
func (s *schemas) form(md protoreflect.MessageDescriptor, bound []fieldPath) object {
	fields, _ := s.textFields(md, bound)
	properties := make(object, 0, len(fields))
	var encoding object
	for _, f := range fields {
		schema := f.schema
		if f.path.leaf().IsMap() {
			encoding.set(f.name, object{{"style", "deepObject"}, {"explode", true}})
		}
		if f.asJSON {
			schema = object{{"type", "string"}, {"contentMediaType", mediaJSON}}
		}
		schema = append(object(nil), schema...)
		schema.setDescription(s.comment(f.path.leaf().FullName()))
		properties.set(f.name, schema)
	}
	media := mediaOf(object{{"type", "object"}, {"properties", properties}})
	if len(encoding) > 0 {
		media.set("encoding", encoding)
	}
	return media
}

// answer describes what a route answers when all went well.
func (s *schemas) answer(r *routes.Route, errors string) object {
	output := r.Descriptor.Output()
	message, schema := output, object(nil)
	if r.ResponseBody != "" {
		path := findField(output, r.ResponseBody)
		if path == nil {
			return object{{"description", "OK"}}
		}
		fd := path.leaf()
		message = nil
		if !fd.IsList() && !fd.IsMap() {
			message = fd.Message()
		}
		schema = s.fieldValue(fd)
		if s.nullWhenUnset(fd) {
			schema = nullable(schema)
		}
	}
	toAll := r.FanOut != nil && r.Errors != errorsConnect
	if isRaw(r, message) && !toAll {
		return object{{"description", "The body as the backend gives it, of its media type."}, {"content", object{{mediaAny, object{}}}}}
	}
	if schema == nil {
		schema = s.message(output)
	}
	if toAll {
		schema = resultsOf(schema)
	}
	if errors == errorsEnvelope {
		schema = envelopeOf(schema)
	}
	if !r.ServerStreams {
		return object{{"description", "OK"}, {"content", object{{mediaJSON, mediaOf(schema)}}}}
	}
	return object{
		{"description", "A stream of messages, in the form that `Accept` asks for."},
		{"content", object{
			{mediaLines, mediaOf(schema)},
			{mediaJSON, mediaOf(object{{"type", "array"}, {"items", schema}})},
			{mediaEvents, mediaOf(schema)},
		}},
	}
}

// resultsOf is what a route to all endpoints answers, whose responses each are as
// the schema says. A failed call's has the status before it.
func resultsOf(schema object) object {
	text := object{{"type", "string"}}
	result := object{{"type", "object"}, {"properties", object{
		{"endpoint", text}, {"code", text}, {"response", schema}, {"message", text}, {"reason", text},
	}}, {"required", texts("endpoint", "code")}}
	return object{{"type", "object"}, {"properties", object{
		{"endpoints", object{{"type", "array"}, {"items", result}}},
	}}, {"required", texts("endpoints")}}
}

func mediaOf(schema object) object { return object{{"schema", schema}} }

func withDescription(text string, content object) object {
	var o object
	o.setText("description", text)
	o.set("content", content)
	return o
}

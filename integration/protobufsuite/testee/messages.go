package main

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The runner's messages, conformance.ConformanceRequest and -Response, by the
// numbers of their fields: no Go module has their generated code.

// format is a conformance.WireFormat.
type format int

const (
	formatProtobuf format = 1
	formatJSON     format = 2
	formatText     format = 4
)

// request is a ConformanceRequest.
type request struct {
	// Type is the message type's full name.
	Type string `json:"type"`
	// Format is that of Payload.
	Format  format `json:"format"`
	Payload []byte `json:"payload"`
	// Output is the format that is wanted.
	Output format `json:"output"`
	// DiscardUnknown: unknown fields in JSON are to be ignored.
	DiscardUnknown bool `json:"discard_unknown,omitempty"`
}

func parseRequest(frame []byte) (request, error) {
	const ignoreUnknownParsingTest = 3 // of enum TestCategory
	var q request
	for len(frame) > 0 {
		num, t, n := protowire.ConsumeTag(frame)
		if n < 0 {
			return q, protowire.ParseError(n)
		}
		frame = frame[n:]
		size := protowire.ConsumeFieldValue(num, t, frame)
		if size < 0 {
			return q, protowire.ParseError(size)
		}
		number, _ := protowire.ConsumeVarint(frame)
		content, _ := protowire.ConsumeBytes(frame)
		frame = frame[size:]
		switch num {
		case 1:
			q.Format, q.Payload = formatProtobuf, content
		case 2:
			q.Format, q.Payload = formatJSON, content
		case 8:
			q.Format, q.Payload = formatText, content
		case 3:
			q.Output = format(number)
		case 4:
			q.Type = string(content)
		case 5:
			q.DiscardUnknown = number == ignoreUnknownParsingTest
		}
	}
	return q, nil
}

// answer is a ConformanceResponse: one of its fields.
type answer struct {
	field   protowire.Number
	content []byte
}

func parseError(err error) answer           { return answer{1, []byte(err.Error())} }
func runtimeError(err error) answer         { return answer{2, []byte(err.Error())} }
func protobufPayload(content []byte) answer { return answer{3, content} }
func jsonPayload(content []byte) answer     { return answer{4, content} }
func skipped(why string) answer             { return answer{5, []byte(why)} }
func serializeError(err error) answer       { return answer{6, []byte(err.Error())} }

func (a answer) append(dst []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, a.field, protowire.BytesType), a.content)
}

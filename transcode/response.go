package transcode

// maxResponse bounds the JSON of one response, in bytes: with defaults shown,
// an empty message of two bytes on the wire is a thousand as JSON.
const maxResponse = 64 << 20

// AppendResponse appends the response message, or the field of it that the
// binding picks, as compact JSON to dst. A *ResponseError says that wire is no
// such message or has no JSON form; dst's own bytes are untouched then.
// One whose JSON is larger than 64 MiB wraps [ErrResponseTooLarge].
//
// A picked field that is not set shows as the empty value of its kind. The
// fields beside it are not looked into.
//
// What is shown, and how, is what protojson says of the message that protobuf-go
// reads, but that Any counts as nesting, of which 10,000 levels are shown, and
// that 100 groups may be nested, and messages of thousands of fields less than 10,000 deep.
func (m *Method) AppendResponse(dst, wire []byte) ([]byte, error) {
	out, err := m.writeResponse(dst, wire)
	if err != nil {
		return dst, m.responseError(err)
	}
	return out, nil
}

func (m *Method) responseError(cause error) *ResponseError {
	return &ResponseError{Message: string(m.output.desc.FullName()), cause: cause}
}

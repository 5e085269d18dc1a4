package transcode

// AppendResponse appends the response message, or the field of it that the
// binding picks, as compact JSON to dst. A *ResponseError says that wire is no
// such message or has no JSON form; dst's own bytes are untouched then.
//
// A picked field that is not set shows as the empty value of its kind.
func (m *Method) AppendResponse(dst, wire []byte) ([]byte, error) {
	if out, ok := m.writeResponse(dst, wire); ok {
		return out, nil
	}
	return m.slowResponse(dst, wire)
}

package transcode

// The two engines apart, for the tests that compare them.

// SlowBody appends a body by dynamicpb and protojson.
func (m *Method) SlowBody(dst, body []byte) ([]byte, error) { return m.slowBody(dst, body) }

// SlowResponse shows a response by dynamicpb and protojson.
func (m *Method) SlowResponse(dst, wire []byte) ([]byte, error) { return m.slowResponse(dst, wire) }

// DirectBody appends a body by the direct engine alone, if that takes it.
func (m *Method) DirectBody(dst, body []byte) ([]byte, bool) { return m.readBody(dst, body) }

// Linked adds the program's own types to a resolver.
func Linked(types Resolver) Resolver { return linked(types) }

package transcode

// What the tests compare with their oracles.

// SlowBody appends a body by dynamicpb and protojson.
func (m *Method) SlowBody(dst, body []byte) ([]byte, error) { return m.slowBody(dst, body) }

// SlowResponse shows a response by dynamicpb and protojson.
func (m *Method) SlowResponse(dst, wire []byte) ([]byte, error) { return m.slowResponse(dst, wire) }

// ReadBody appends a body alone.
func (m *Method) ReadBody(dst, body []byte) ([]byte, error) { return m.readBody(dst, body) }

// Linked adds the program's own types to a resolver.
func Linked(types Resolver) Resolver { return linked(types) }

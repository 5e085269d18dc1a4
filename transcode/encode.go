package transcode

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
)

// Encode compiles the JSON of a whole message, such as one that stands in a
// configuration, to its wire bytes. Fields that the message does not have are
// faults. The error says what is wrong and where.
func Encode(md protoreflect.MessageDescriptor, text []byte, types Resolver) ([]byte, error) {
	e := newEngine(config.JSON{}, types)
	plan, err := e.lookup.plan(md)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", md.FullName(), err)
	}
	m := &Method{engine: e, input: plan, wholeBody: true}
	wire, err := m.readBody(nil, text)
	if err != nil {
		return nil, err
	}
	if err := m.checkRequired(wire); err != nil {
		return nil, err
	}
	return wire, nil
}

package routes

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// Outcome reads from a response whether the call was a success.
type Outcome struct {
	// Whether what is none is a failure to the breaker.
	Breaker bool

	field *transcode.Field
	ok    []transcode.FieldValue
}

// Success tells whether a response, as protobuf bytes, is a success. What is no
// message is none.
func (o *Outcome) Success(msg []byte) bool {
	v, err := o.field.Read(msg)
	if err != nil {
		return false
	}
	for i := range o.ok {
		if o.ok[i].Equal(v) {
			return true
		}
	}
	return false
}

// compileOutcome compiles what the config says of a method's responses.
func compileOutcome(cfg *config.Outcome, output protoreflect.MessageDescriptor) (_ *Outcome, key string, _ error) {
	field, err := transcode.CompileField(output, cfg.Field)
	if err != nil {
		return nil, ".field", err
	}
	o := &Outcome{Breaker: cfg.Breaker, field: field}
	for i, text := range cfg.OK {
		v, err := field.Parse(text)
		if err != nil {
			return nil, fmt.Sprintf(".ok[%d]", i), err
		}
		o.ok = append(o.ok, v)
	}
	return o, "", nil
}

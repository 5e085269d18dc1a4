package routes

import (
	"errors"
	"fmt"
	"slices"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/transcode"
)

// Fallback answers in place of a backend that cannot: with Response, by
// Backend, or as LastGood says, whichever is set.
type Fallback struct {
	// A message of the method's response, as protobuf bytes; nil: none. An empty
	// message is not nil.
	Response []byte
	// Another backend that has the method, with the same types; empty: none.
	Backend string
	// How good responses are kept; nil: they are not.
	LastGood *config.LastGood

	on [codes.Unauthenticated + 1]bool
}

// For tells whether it stands in for a call that ended with a code.
func (f *Fallback) For(code codes.Code) bool { return int(code) < len(f.on) && f.on[code] }

// compileFallback compiles what the config says for a method. key is the key
// that the error is about, from the fallback's own on. It gives nil where the
// other backend's descriptors are not there yet.
func (b *builder) compileFallback(m *method, cfg *config.Fallback, idempotent bool) (_ *Fallback, key string, _ error) {
	f := &Fallback{Backend: cfg.Backend, LastGood: cfg.LastGood}
	for i, name := range cfg.On {
		code, ok := rpccode.Code_value[name]
		if !ok {
			return nil, fmt.Sprintf(".on[%d]", i), fmt.Errorf("%q is no code", name)
		}
		f.on[code] = true
	}
	switch {
	case cfg.Response != "":
		wire, err := transcode.Encode(m.descriptor.Output(), []byte(cfg.Response), m.backend.Descriptors.Types())
		if err != nil {
			return nil, ".response", fmt.Errorf("is no %s: %w", m.descriptor.Output().FullName(), err)
		}
		f.Response = append([]byte{}, wire...)
	case cfg.Backend != "":
		known, err := b.checkStandIn(m, cfg.Backend)
		if err != nil {
			return nil, ".backend", err
		}
		if !known {
			return nil, "", nil
		}
	case !idempotent && !isIdempotent(m.descriptor):
		return nil, ".last_good", errors.New("answers a call without making it: only where the method's idempotency_level, " +
			"or idempotent of the route, says that a call may be repeated without doing anything")
	}
	return f, "", nil
}

// checkStandIn tells whether another backend is known, and errs unless that one
// has the method with the same types.
func (b *builder) checkStandIn(m *method, name string) (known bool, _ error) {
	if slices.Contains(b.table.pending, name) {
		b.table.warn("backend %s, %s: no fallback until the descriptors of backend %s are there", m.backend.Backend.Name, m.name, name)
		return false, nil
	}
	at := slices.IndexFunc(b.methods[m.name], func(other *method) bool { return other.backend.Backend.Name == name })
	if at < 0 {
		return false, fmt.Errorf("backend %s does not serve %s", name, m.name)
	}
	other := b.methods[m.name][at].descriptor
	if m.descriptor.IsStreamingClient() != other.IsStreamingClient() || m.descriptor.IsStreamingServer() != other.IsStreamingServer() {
		return false, fmt.Errorf("backend %s has %s as another kind of stream", name, m.name)
	}
	same := make(comparison)
	for _, pair := range [][2]protoreflect.MessageDescriptor{{m.descriptor.Input(), other.Input()}, {m.descriptor.Output(), other.Output()}} {
		if differs := same.messages(pair[0], pair[1]); differs != "" {
			return false, fmt.Errorf("backend %s has another %s than backend %s", name, differs, m.backend.Backend.Name)
		}
	}
	return true, nil
}

// A comparison remembers the types that are the same, or being compared.
type comparison map[protoreflect.FullName]bool

// messages gives the first type that is not the same in both, inside and out,
// or "". Comments and options do not matter.
func (c comparison) messages(a, b protoreflect.MessageDescriptor) protoreflect.FullName {
	if a.FullName() != b.FullName() {
		return b.FullName()
	}
	if c[a.FullName()] {
		return ""
	}
	c[a.FullName()] = true
	if a.IsPlaceholder() || b.IsPlaceholder() || a.Fields().Len() != b.Fields().Len() {
		return a.FullName()
	}
	for i := range a.Fields().Len() {
		fa := a.Fields().Get(i)
		fb := b.Fields().ByNumber(fa.Number())
		if fb == nil || !sameField(fa, fb) {
			return a.FullName()
		}
		if ea, eb := fa.Enum(), fb.Enum(); ea != nil && !proto.Equal(protodesc.ToEnumDescriptorProto(ea), protodesc.ToEnumDescriptorProto(eb)) {
			return ea.FullName()
		}
		if ma := fa.Message(); ma != nil {
			if differs := c.messages(ma, fb.Message()); differs != "" {
				return differs
			}
		}
	}
	return ""
}

// sameField tells whether two fields are the same on the wire and as JSON, but
// for the types that they are of.
func sameField(a, b protoreflect.FieldDescriptor) bool {
	return a.Name() == b.Name() && a.JSONName() == b.JSONName() && a.Kind() == b.Kind() && a.Cardinality() == b.Cardinality() &&
		a.IsMap() == b.IsMap() && a.HasPresence() == b.HasPresence() && (a.Enum() == nil) == (b.Enum() == nil)
}

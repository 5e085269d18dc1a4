package transcode

import (
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/config"
)

// Binding says where the parts of a request message come from, and which part
// of the response is shown: the body-related half of a google.api.http rule.
type Binding struct {
	// Body is "*" for the whole message, the path of a field, or empty for no body.
	Body string
	// ResponseBody is the path of the response's field that is shown; empty: the whole message.
	ResponseBody string
	// Vars are the field paths of the path template's variables, in order.
	Vars []string
	// UpdateMask: the HTTP method is PATCH. Where the body is one field, the
	// request's FieldMask (the only one, or update_mask of several) is filled
	// with the fields that the body names, unless query or path set it.
	UpdateMask bool
	// HTTPBodyAsJSON: a google.api.HttpBody is a message like any other, as RPC
	// protocols have it, and not the bare body of an HTTP request or response.
	HTTPBodyAsJSON bool
}

// Compiler compiles the methods of one backend. Methods of one Compiler share
// what is known of their message types; compile all of a backend's methods
// with one. Not safe for concurrent use; the methods it made are.
type Compiler struct {
	engine *engine
}

// NewCompiler makes a Compiler for the JSON options of one backend. A nil
// types knows only the types linked into the program.
func NewCompiler(o config.JSON, types Resolver) *Compiler {
	return &Compiler{engine: newEngine(o, types)}
}

// Compile compiles one method with a Compiler of its own.
func Compile(md protoreflect.MethodDescriptor, b Binding, o config.JSON, types Resolver) (*Method, error) {
	return NewCompiler(o, types).Compile(md, b)
}

// Method is one binding of one method, compiled. Immutable and safe for
// concurrent use.
type Method struct {
	engine *engine
	name   protoreflect.FullName
	input  *messagePlan
	output *messagePlan

	// wholeBody: the body is the whole message.
	wholeBody bool
	// body is the path of the field that the body is; nil: none.
	body []*fieldPlan
	// requestKind says what the body is.
	requestKind BodyKind
	// mask is the FieldMask that the body's fields fill; nil: none.
	mask *fieldPlan
	// response is the path of the field that is shown; nil: the whole message.
	response []*fieldPlan
	// responseKind is what the response, or the field of it that is shown, is.
	responseKind BodyKind
	vars         []variable
	// overrides are the variables that must take the body's value out before theirs is appended.
	overrides []variable
	// bound are the paths that the query may not touch.
	bound [][]*fieldPlan
	// noQuery: there is nothing left for the query to set.
	noQuery bool
}

// variable is a path template's variable, resolved.
type variable struct {
	path  string
	steps []*fieldPlan
}

func (v variable) leaf() *fieldPlan { return v.steps[len(v.steps)-1] }

// Compile compiles a binding of a method. A *BindingError says which part of
// the binding the message has no place for.
func (c *Compiler) Compile(md protoreflect.MethodDescriptor, b Binding) (*Method, error) {
	fault := func(what, format string, args ...any) error {
		return &BindingError{Method: string(md.FullName()), What: what, Reason: fmt.Sprintf(format, args...)}
	}
	m := &Method{engine: c.engine, name: md.FullName(), wholeBody: b.Body == "*"}
	var err error
	if m.input, err = c.engine.lookup.plan(md.Input()); err != nil {
		return nil, fault("request message", "%v", err)
	}
	if m.output, err = c.engine.lookup.plan(md.Output()); err != nil {
		return nil, fault("response message", "%v", err)
	}
	if b.Body != "" && !m.wholeBody {
		if m.body, err = resolvePath(m.input, b.Body); err != nil {
			return nil, fault(fmt.Sprintf("body %q", b.Body), "%v", err)
		}
		m.bound = append(m.bound, m.body)
	}
	if b.ResponseBody != "" {
		if m.response, err = resolvePath(m.output, b.ResponseBody); err != nil {
			return nil, fault(fmt.Sprintf("response_body %q", b.ResponseBody), "%v", err)
		}
	}
	if m.wholeBody || m.body != nil {
		m.requestKind = bodyKind(m.input, m.body, b.HTTPBodyAsJSON)
	}
	m.responseKind = bodyKind(m.output, m.response, b.HTTPBodyAsJSON)
	for _, path := range b.Vars {
		what := fmt.Sprintf("variable %q", path)
		steps, err := resolvePath(m.input, path)
		if err != nil {
			return nil, fault(what, "%v", err)
		}
		v := variable{path: path, steps: steps}
		if err := bindable(v.leaf()); err != nil {
			return nil, fault(what, "%v", err)
		}
		for _, other := range m.bound {
			switch {
			case isPrefix(steps, other):
				return nil, fault(what, "%s is bound already", pathString(other))
			case len(other) > 0 && isPrefix(other, steps) && !isPrefix(other, m.body):
				return nil, fault(what, "%s, which contains it, is bound already", pathString(other))
			}
			if a, b := oneofClash(steps, other); a != nil {
				return nil, fault(what, "%s and %s are members of one oneof", a.name, b.name)
			}
		}
		m.vars = append(m.vars, v)
		m.bound = append(m.bound, steps)
		if m.overriding(v) {
			m.overrides = append(m.overrides, v)
		}
	}
	if b.UpdateMask && m.requestKind == JSONBody && !m.wholeBody {
		m.mask = m.updateMask()
	}
	m.noQuery = c.engine.discardUnknown && (m.wholeBody || m.nothingUnbound())
	return m, nil
}

// resolvePath finds a dotted path of field names, each but the last a
// singular message. Names are proto names, as google.api.http has them; JSON
// names are understood too.
func resolvePath(mp *messagePlan, path string) ([]*fieldPlan, error) {
	var steps []*fieldPlan
	for name := range strings.SplitSeq(path, ".") {
		if mp == nil {
			last := steps[len(steps)-1]
			return nil, fmt.Errorf("field %q is not a singular message", last.name)
		}
		f := mp.byText[name]
		if f == nil {
			return nil, fmt.Errorf("message %s has no field %q", mp.desc.FullName(), name)
		}
		steps = append(steps, f)
		mp = f.inside()
	}
	return steps, nil
}

// inside is the message that a path may go on into; nil: none.
func (f *fieldPlan) inside() *messagePlan {
	if f.list || f.isMap {
		return nil
	}
	return f.message
}

// bindable says why a path variable cannot be bound to a field, or nil.
func bindable(f *fieldPlan) error {
	switch {
	case f.isMap:
		return fmt.Errorf("field %q is a map", f.name)
	case f.message == nil:
		return nil
	}
	switch f.message.special {
	case isDuration, isEmpty, isFieldMask, isStruct, isTimestamp, isValue, isWrapper:
		return nil
	default:
		return fmt.Errorf("message %s cannot be written in a path", f.message.desc.FullName())
	}
}

// overriding tells whether appending the variable's value after the body's
// would not replace it.
func (m *Method) overriding(v variable) bool {
	if !m.wholeBody && !isPrefix(m.body, v.steps) {
		return false
	}
	for _, f := range v.steps {
		if f.oneof >= 0 {
			return true
		}
	}
	leaf := v.leaf()
	if leaf.list {
		return true
	}
	if leaf.message == nil {
		return false
	}
	switch leaf.message.special {
	case isDuration, isTimestamp, isWrapper:
		return false // written with all their fields
	default:
		return true
	}
}

// nothingUnbound tells whether every field of the request is bound as a
// whole, so that grpc-gateway would not look at the query.
func (m *Method) nothingUnbound() bool {
	for _, f := range m.input.fields {
		if !m.isBound(f) {
			return false
		}
	}
	return true
}

func (m *Method) isBound(f *fieldPlan) bool {
	for _, b := range m.bound {
		if len(b) == 1 && b[0] == f {
			return true
		}
	}
	return false
}

// isPrefix tells whether path begins with prefix. An empty prefix is none.
func isPrefix(prefix, path []*fieldPlan) bool {
	if len(prefix) == 0 || len(prefix) > len(path) {
		return false
	}
	for i, f := range prefix {
		if path[i] != f {
			return false
		}
	}
	return true
}

// oneofClash finds the two members of one oneof at which two paths part.
func oneofClash(a, b []*fieldPlan) (*fieldPlan, *fieldPlan) {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		if a[i].oneof >= 0 && a[i].oneof == b[i].oneof {
			return a[i], b[i]
		}
		return nil, nil
	}
	return nil, nil
}

func pathString(steps []*fieldPlan) string {
	names := make([]string, len(steps))
	for i, f := range steps {
		names[i] = f.name
	}
	return strings.Join(names, ".")
}

// engine is what the methods of one backend share.
type engine struct {
	emitDefaults   bool
	protoNames     bool
	enumNumbers    bool
	int64Numbers   bool
	discardUnknown bool
	types          Resolver
	lookup         lookup

	// Scratch space.
	requests sync.Pool // of *requestState
	readers  sync.Pool // of *reader
	writers  sync.Pool // of *writer
}

func newEngine(o config.JSON, types Resolver) *engine {
	e := &engine{
		emitDefaults:   o.EmitDefaults,
		protoNames:     o.UseProtoNames,
		enumNumbers:    o.EnumsAsNumbers,
		int64Numbers:   o.Int64AsNumbers,
		discardUnknown: o.DiscardUnknown,
		types:          linked(types),
	}
	e.lookup.types = e.types
	e.lookup.plans = planner{
		protoNames:   o.UseProtoNames,
		enumNumbers:  o.EnumsAsNumbers,
		int64Numbers: o.Int64AsNumbers,
		messages:     make(map[protoreflect.FullName]*messagePlan),
		enums:        make(map[protoreflect.FullName]*enumPlan),
	}
	e.requests.New = func() any { return new(requestState) }
	e.readers.New = func() any { return new(reader) }
	e.writers.New = func() any { return new(writer) }
	return e
}

package transcode

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxParameters bounds the parameters of one query; net/url has the same bound.
const maxParameters = 10000

// parameter is one key=value of a query that sets a field.
type parameter struct {
	// key as the caller wrote it, decoded.
	key   string
	value string
	// steps is the path of the field.
	steps []*fieldPlan
	// entry is what stood in brackets after a map field's name.
	entry    string
	hasEntry bool
}

// population is what a query or form may set.
type population struct {
	// outer is the path of the message whose fields the keys name; empty: the request.
	outer []*fieldPlan
	root  *messagePlan
	// bound are the paths of what it may not touch.
	bound [][]*fieldPlan
	// claims are the members of oneofs that are set, once one is asked for.
	claims oneofClaims
	// hasBody: the body's own oneofs are taken.
	hasBody bool
	// what a parameter is called in errors.
	what string
}

// appendQuery appends the fields that a raw query sets. The rules are those
// of grpc-gateway's PopulateQueryParameters: a field is known by its proto
// name or its JSON name, but not by both at once; a repeated field repeats the
// key; a map's entry is field[key]=value; a field that the path or the body
// binds, one inside it and one around it are left alone; members of one oneof
// exclude each other. Where it leaves things to the order of a Go map, fields
// come in the order of their declaration.
func (m *Method) appendQuery(dst []byte, st *requestState, query string, hasBody bool) ([]byte, error) {
	if m.wholeBody {
		if strings.Trim(query, "&") != "" {
			return dst, newError("", "no query parameters are known: the body is the whole request")
		}
		return dst, nil
	}
	return m.populate(dst, st, query, population{root: m.input, bound: m.bound, hasBody: hasBody, what: "query parameter"})
}

// appendForm appends the fields that a form sets in the message that the body
// is. The rules are those of queries.
func (m *Method) appendForm(dst []byte, st *requestState, form string) ([]byte, error) {
	p := population{outer: m.body, root: m.input, bound: m.bound, what: "form field"}
	if len(m.body) > 0 {
		p.root, p.bound = m.body[len(m.body)-1].inside(), m.bound[1:]
	}
	if p.root == nil {
		return dst, newError(pathString(m.body), "cannot be a form")
	}
	start := len(dst)
	dst, err := m.populate(dst, st, form, p)
	if err == nil && len(dst) == start && len(m.body) > 0 && form != "" {
		// As an object without fields would.
		dst = wrap(dst, start, m.body)
	}
	return dst, err
}

// populate appends the fields that a query or form sets.
func (m *Method) populate(dst []byte, st *requestState, query string, p population) ([]byte, error) {
	defer st.forgetParameters()
	if err := m.parseQuery(st, query, p); err != nil {
		return dst, err
	}
	params := st.params
	if len(params) > 1 {
		slices.SortStableFunc(params, compareParameters)
	}
	for len(params) > 0 {
		// A run of parameters for one field.
		n := 1
		for n < len(params) && compareParameters(params[0], params[n]) == 0 {
			n++
		}
		run := params[:n]
		params = params[n:]
		for _, other := range run[1:] {
			if other.key != run[0].key {
				return dst, newError(fieldName(other.key), "the same field is given under another name too")
			}
		}
		steps := run[0].steps
		st.hasMask = st.hasMask || steps[0] == m.mask
		if hasOneof(steps) {
			if p.claims == nil {
				p.claims = m.claimed(p.hasBody)
			}
			if f := p.claims.claim(steps); f != nil {
				return dst, newError(fieldName(run[0].key), "another member of oneof "+oneofName(f)+" is set already")
			}
		}
		var err error
		if dst, err = appendParameters(dst, run); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// parseQuery splits a query or form and finds the fields.
func (m *Method) parseQuery(st *requestState, query string, p population) error {
	n := 0
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		if n++; n > maxParameters {
			return newError("", "too many "+p.what+"s")
		}
		if strings.IndexByte(pair, ';') >= 0 {
			return newError("", "parameters in the "+p.what+" must be separated by &, not by ;")
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			return newError("", "malformed percent-encoding in a "+p.what)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return newError(fieldName(key), "malformed percent-encoding in a "+p.what)
		}
		if err := m.addParameter(st, p, key, value); err != nil {
			return err
		}
	}
	return nil
}

// addParameter finds the field that a key names, and notes the parameter
// unless its field is bound or unknown.
func (m *Method) addParameter(st *requestState, in population, key, value string) error {
	p := parameter{key: key, value: value}
	var path string
	path, p.entry, p.hasEntry = cutEntry(key)
	start := len(st.steps)
	st.steps = append(st.steps, in.outer...)
	mp := in.root
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, ".")
		if mp == nil {
			last := st.steps[len(st.steps)-1]
			return newError(fieldName(key), "field "+last.name+" is not a singular message")
		}
		f := mp.byText[name]
		if f == nil {
			st.steps = st.steps[:start]
			if m.engine.discardUnknown {
				return nil
			}
			return newError(fieldName(key), "no such "+in.what)
		}
		if len(st.steps)-start == maxDepth {
			return newError(fieldName(key), "nested too deeply")
		}
		st.steps = append(st.steps, f)
		mp = f.inside()
		if in.touchesBound(st.steps[start:], !more) {
			st.steps = st.steps[:start]
			return nil
		}
	}
	// The slice keeps its array when st.steps grows into another one.
	p.steps = st.steps[start:len(st.steps):len(st.steps)]
	if p.hasEntry && !p.steps[len(p.steps)-1].isMap {
		return newError(fieldName(key), "the field is not a map")
	}
	st.params = append(st.params, p)
	return nil
}

// touchesBound tells whether a path lies in a bound field or, where it is
// complete, around one: setting the whole would replace the bound part.
func (p *population) touchesBound(steps []*fieldPlan, complete bool) bool {
	for _, b := range p.bound {
		if isPrefix(b, steps) || (complete && isPrefix(steps, b)) {
			return true
		}
	}
	return false
}

// cutEntry splits field[key] at its last opening bracket.
func cutEntry(key string) (field, entry string, ok bool) {
	if !strings.HasSuffix(key, "]") || strings.IndexByte(key, '\n') >= 0 {
		return key, "", false
	}
	i := strings.LastIndexByte(key, '[')
	if i < 0 {
		return key, "", false
	}
	return key[:i], key[i+1 : len(key)-1], true
}

// compareParameters orders parameters by field, then by map entry.
func compareParameters(a, b parameter) int {
	for i := range min(len(a.steps), len(b.steps)) {
		if c := cmp.Compare(a.steps[i].index, b.steps[i].index); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(len(a.steps), len(b.steps)); c != 0 {
		return c
	}
	if a.hasEntry != b.hasEntry {
		if b.hasEntry {
			return -1
		}
		return 1
	}
	return strings.Compare(a.entry, b.entry)
}

// appendParameters appends the field that a run of equal keys sets.
func appendParameters(dst []byte, run []parameter) ([]byte, error) {
	first := run[0]
	leaf := first.steps[len(first.steps)-1]
	start := len(dst)
	var reason string
	switch {
	case leaf.isMap:
		dst, reason = appendEntry(dst, leaf, run)
	case leaf.list:
		for _, p := range run {
			if dst, reason = appendTextField(dst, leaf, p.value); reason != "" {
				break
			}
		}
	case len(run) > 1:
		reason = "given more than once"
	default:
		dst, reason = appendTextField(dst, leaf, first.value)
	}
	if reason != "" {
		return dst[:start], newError(fieldName(first.key), reason)
	}
	return wrap(dst, start, first.steps[:len(first.steps)-1]), nil
}

// appendEntry appends one entry of a map.
func appendEntry(dst []byte, f *fieldPlan, run []parameter) ([]byte, string) {
	var key, value string
	switch {
	case run[0].hasEntry && len(run) == 1:
		key, value = run[0].entry, run[0].value
	case run[0].hasEntry:
		return dst, "given more than once"
	case len(run) == 2:
		// grpc-gateway takes field=key&field=value for an entry.
		key, value = run[0].value, run[1].value
	default:
		return dst, "a map's entry is written " + f.name + "[key]=value"
	}
	dst = append(protowireTag(dst, f), 0)
	mark := len(dst) - 1
	var reason string
	if dst, reason = appendTextField(dst, f.mapKey, key); reason != "" {
		return dst, "the key is " + reason
	}
	if dst, reason = appendTextField(dst, f.mapValue, value); reason != "" {
		return dst, reason
	}
	return closeLength(dst, mark), ""
}

func hasOneof(steps []*fieldPlan) bool {
	for _, f := range steps {
		if f.oneof >= 0 {
			return true
		}
	}
	return false
}

// oneofClaims notes which member of which oneof is set, by the path of the
// oneof. Made only for queries that set one.
type oneofClaims map[string]*fieldPlan

// claimed notes what the path variables and the body set.
func (m *Method) claimed(hasBody bool) oneofClaims {
	c := make(oneofClaims)
	for _, b := range m.bound {
		if hasBody || !isSame(b, m.body) {
			c.claim(b)
		}
	}
	return c
}

func isSame(a, b []*fieldPlan) bool { return len(a) == len(b) && isPrefix(a, b) }

// claim notes the oneofs on a path. It returns the field whose oneof has
// another member set already, or nil.
func (c oneofClaims) claim(steps []*fieldPlan) *fieldPlan {
	var key strings.Builder
	for _, f := range steps {
		if f.oneof >= 0 {
			name := key.String() + "|" + oneofName(f)
			if other := c[name]; other != nil && (other != f || f.message == nil) {
				return f
			}
			c[name] = f
		}
		key.WriteString(f.name)
		key.WriteByte('.')
	}
	return nil
}

func oneofName(f *fieldPlan) string {
	var od protoreflect.OneofDescriptor = f.desc.ContainingOneof()
	return string(od.Name())
}

package routes

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rpcgate/rpcgate/routes/template"
)

// A Table is the immutable set of all routes. [Build] makes one.
type Table struct {
	routes      []*Route
	tree        template.Tree // its ids are indexes into http
	http        []*Route
	grpc        map[string]*Route // by full method
	descriptors map[string]*Descriptors
	registry    *Registry
	warnings    []string
	pending     []string
	notFound    *NotFoundError
}

// A Match is a route that was found for an HTTP request. It may be used for one
// match after another, which then costs no allocation.
type Match struct {
	Route *Route
	// The values of the template's variables, decoded, in the template's order.
	// The strings stay valid, the slice is overwritten by the next match.
	Vars []string

	path template.Path
	room [2]string // for Vars: few templates have more
}

// NotFoundError says that no route leads to the path or method. If backends are
// Pending, whose descriptors are not there yet, one of them may turn out to
// serve it.
type NotFoundError struct {
	Pending []string // names of backends
}

func (e *NotFoundError) Error() string {
	if len(e.Pending) > 0 {
		return "no route, but still waiting for the descriptors of " + strings.Join(e.Pending, ", ")
	}
	return "no route"
}

// MethodNotAllowedError says that the path has routes, but for other HTTP
// methods. The answer to an OPTIONS request for which there is no route is made
// of it, too.
type MethodNotAllowedError struct {
	Allow   []string // sorted; HEAD if there is GET, and always OPTIONS
	Pending []string // as in [NotFoundError]
}

func (e *MethodNotAllowedError) Error() string {
	return "method not allowed; the path has " + strings.Join(e.Allow, ", ")
}

// BadPathError is a path that is none: with a malformed escape, or without a
// slash at the front. Its text may be shown to the caller.
type BadPathError struct {
	err error
}

func (e *BadPathError) Error() string { return e.err.Error() }

// Unwrap gives the *[template.PathError].
func (e *BadPathError) Unwrap() error { return e.err }

// MatchHTTP finds the route for an HTTP request and puts it into m. rawPath is
// the path as it stands in the request line, still escaped, without the query;
// see [template.Path] for how it is decoded. HEAD is led to GET's route if it
// has none of its own; answering without the body is the caller's part.
//
// The error is a *[NotFoundError], a *[MethodNotAllowedError] or a
// *[BadPathError]; then m holds no route.
func (t *Table) MatchHTTP(method, rawPath string, m *Match) error {
	if m.Vars == nil {
		m.Vars = m.room[:0]
	}
	m.Route, m.Vars = nil, m.Vars[:0]
	if err := m.path.Parse(rawPath); err != nil {
		return &BadPathError{err}
	}
	id, vars, ok := t.tree.Match(method, &m.path, m.Vars)
	if ok {
		m.Route, m.Vars = t.http[id], vars
		return nil
	}
	if allow := t.tree.Allow(&m.path); allow != nil {
		return &MethodNotAllowedError{Allow: allow, Pending: t.pending}
	}
	return t.notFound
}

// MatchStream finds the route for a request to open a two-way connection, a
// WebSocket, which comes as a GET whatever the route's own method is: GET's
// route at the path if there is one, or else one whose method streams, POST's
// before others', or else POST's. Its errors are those of [Table.MatchHTTP]; a
// *[MethodNotAllowedError] says that the path has routes, but no such.
func (t *Table) MatchStream(rawPath string, m *Match) error {
	err := t.MatchHTTP(http.MethodGet, rawPath, m)
	var other *MethodNotAllowedError
	if !errors.As(err, &other) {
		return err
	}
	for _, method := range append([]string{http.MethodPost}, other.Allow...) {
		id, vars, ok := t.tree.Match(method, &m.path, m.Vars[:0])
		if ok && (t.http[id].ClientStreams || t.http[id].ServerStreams) {
			m.Route, m.Vars = t.http[id], vars
			return nil
		}
	}
	if id, vars, ok := t.tree.Match(http.MethodPost, &m.path, m.Vars[:0]); ok {
		m.Route, m.Vars = t.http[id], vars
		return nil
	}
	return err
}

// MatchGRPC finds the route for a full method name, "/package.Service/Method".
// The error is a *[NotFoundError].
func (t *Table) MatchGRPC(fullMethod string) (*Route, error) {
	if r, ok := t.grpc[fullMethod]; ok {
		return r, nil
	}
	return nil, t.notFound
}

// Routes gives all routes: backend by backend, method by method, the HTTP
// routes of a method before its gRPC route. It must not be changed.
func (t *Table) Routes() []*Route { return t.routes }

// Pending names the backends whose descriptors are not there yet.
func (t *Table) Pending() []string { return t.pending }

// Warnings tell what was left out of the table without being a fault.
func (t *Table) Warnings() []string { return t.warnings }

// Descriptors gives a backend's descriptors; nil if they are not there yet.
func (t *Table) Descriptors(backend string) *Descriptors { return t.descriptors[backend] }

// Registry describes all routed services, of all backends.
func (t *Table) Registry() *Registry { return t.registry }

func (t *Table) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

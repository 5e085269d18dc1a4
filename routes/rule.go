package routes

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes/template"
)

// A binding is one google.api.http rule, of whichever source, its template
// parsed.
type binding struct {
	key                string // the config key of its template; empty: not from config
	method             string // an HTTP method or template.AnyMethod
	template           *template.Template
	body, responseBody string
}

// httpRule reads a method's google.api.http annotation; nil if there is none.
func httpRule(m protoreflect.MethodDescriptor) (*annotations.HttpRule, error) {
	options, ok := m.Options().(*descriptorpb.MethodOptions)
	if !ok || options == nil {
		return nil, nil //nolint:nilnil // no options, no rule
	}
	// The descriptor came as bytes, and its extensions were left unparsed; see
	// unmarshalDescriptor.
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(options)
	if err != nil {
		return nil, err
	}
	parsed := new(descriptorpb.MethodOptions)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: httpExtension{}}).Unmarshal(b, parsed); err != nil {
		return nil, fmt.Errorf("cannot be parsed: %w", err)
	}
	if !proto.HasExtension(parsed, annotations.E_Http) {
		return nil, nil //nolint:nilnil // no rule
	}
	rule, ok := proto.GetExtension(parsed, annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return nil, errors.New("is not an HttpRule")
	}
	return rule, nil
}

// annotatedBindings gives the bindings of an annotation, and all that is wrong
// with it.
func annotatedBindings(rule *annotations.HttpRule) ([]binding, []error) {
	var bindings []binding
	var faults []error
	for i, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		place := "google.api.http"
		if i > 0 {
			place = fmt.Sprintf("google.api.http, additional binding %d", i)
		}
		b := binding{body: r.GetBody(), responseBody: r.GetResponseBody()}
		var text string
		switch p := r.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			b.method, text = http.MethodGet, p.Get
		case *annotations.HttpRule_Put:
			b.method, text = http.MethodPut, p.Put
		case *annotations.HttpRule_Post:
			b.method, text = http.MethodPost, p.Post
		case *annotations.HttpRule_Delete:
			b.method, text = http.MethodDelete, p.Delete
		case *annotations.HttpRule_Patch:
			b.method, text = http.MethodPatch, p.Patch
		case *annotations.HttpRule_Custom:
			b.method, text = p.Custom.GetKind(), p.Custom.GetPath()
		default:
			faults = append(faults, fmt.Errorf("%s: has no HTTP method and path", place))
			continue
		}
		if i > 0 && len(r.GetAdditionalBindings()) > 0 {
			faults = append(faults, fmt.Errorf("%s: has additional bindings of its own", place))
		}
		if err := b.finish(text); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", place, err))
			continue
		}
		bindings = append(bindings, b)
	}
	return bindings, faults
}

// configBindings gives the bindings of a config route's rule, which stands at
// key, and all that is wrong with it.
func configBindings(rule *config.HTTPRule, key string) ([]binding, []*Fault) {
	bindings, faults := configBinding(rule, key)
	for i := range rule.AdditionalBindings {
		extra := &rule.AdditionalBindings[i]
		key := fmt.Sprintf("%s.additional_bindings[%d]", key, i)
		if len(extra.AdditionalBindings) > 0 {
			faults = append(faults, &Fault{Key: key, Err: errors.New("additional bindings have none of their own")})
		}
		b, f := configBinding(extra, key)
		bindings, faults = append(bindings, b...), append(faults, f...)
	}
	return bindings, faults
}

func configBinding(rule *config.HTTPRule, key string) (bindings []binding, faults []*Fault) {
	patterns := []struct{ key, method, text string }{
		{".get", http.MethodGet, rule.Get},
		{".put", http.MethodPut, rule.Put},
		{".post", http.MethodPost, rule.Post},
		{".delete", http.MethodDelete, rule.Delete},
		{".patch", http.MethodPatch, rule.Patch},
	}
	if rule.Custom != nil {
		patterns = append(patterns, struct{ key, method, text string }{".custom.path", rule.Custom.Kind, rule.Custom.Path})
	}
	var found []string
	for _, p := range patterns {
		if p.text == "" && p.key != ".custom.path" {
			continue
		}
		found = append(found, p.key[1:])
		b := binding{key: key + p.key, method: p.method, body: rule.Body, responseBody: rule.ResponseBody}
		if err := b.finish(p.text); err != nil {
			faults = append(faults, &Fault{Key: b.key, Err: err})
			continue
		}
		bindings = append(bindings, b)
	}
	if len(found) != 1 {
		err := errors.New("needs a path template: one of get, put, post, delete, patch and custom")
		if len(found) > 1 {
			err = fmt.Errorf("has %s: only one of them can be; others go into additional_bindings", strings.Join(found, " and "))
		}
		return nil, append(faults, &Fault{Key: key, Err: err})
	}
	return bindings, faults
}

// finish parses the template and checks what can be checked without the
// method's descriptor.
func (b *binding) finish(text string) error {
	if !isToken(b.method) {
		return fmt.Errorf("%q is not an HTTP method", b.method)
	}
	if b.body != "" && (b.method == http.MethodGet || b.method == http.MethodHead) {
		return fmt.Errorf("%s has no body, but the rule binds body %q", b.method, b.body)
	}
	var err error
	b.template, err = template.Parse(text)
	return err
}

// isToken tells whether s may be an HTTP method (RFC 9110, section 9.1).
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

package transcode

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// lookup finds the plans of what only a message can name, when it comes: the
// types inside Any, and extensions. What was found once is found again without
// the resolver and without a lock. It remembers as many as the resolver knows,
// at most: what is not found is not remembered.
type lookup struct {
	types Resolver

	mu    sync.Mutex // guards plans, and who writes the maps
	plans planner

	messages   atomic.Pointer[map[string]*messagePlan]
	extensions atomic.Pointer[map[extensionKey]*fieldPlan]
	names      atomic.Pointer[map[extensionName]*fieldPlan]
}

// extensionKey is the message that is extended and the field's number in it.
type extensionKey struct {
	extended *messagePlan
	num      protowire.Number
}

// extensionName is the message that is extended and the extension's full name.
type extensionName struct {
	extended *messagePlan
	name     string
}

// errUnknownType is what became of a type that nobody knows.
var errUnknownType = errors.New("unknown type")

// plan gives the plan of a message that a descriptor names.
func (l *lookup) plan(md protoreflect.MessageDescriptor) (*messagePlan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plans.plan(md)
}

// messageByURL finds the type that an Any names: by what comes after the last
// slash, as all of protobuf-go's resolvers do.
func (l *lookup) messageByURL(url []byte) (*messagePlan, error) {
	name := url
	for i := len(url) - 1; i >= 0; i-- {
		if url[i] == '/' {
			name = url[i+1:]
			break
		}
	}
	if known := l.messages.Load(); known != nil {
		if mp := (*known)[string(name)]; mp != nil {
			return mp, nil
		}
	}
	t, err := l.types.FindMessageByURL(string(url))
	if err != nil {
		return nil, fmt.Errorf("%w %.100q", errUnknownType, strings.ToValidUTF8(string(name), "\uFFFD"))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mp, err := l.plans.plan(t.Descriptor())
	if err != nil {
		return nil, err
	}
	remember(&l.messages, string(name), mp)
	return mp, nil
}

// extension finds the extension of a message that has the number; nil: none is known.
func (l *lookup) extension(extended *messagePlan, num protowire.Number) (*fieldPlan, error) {
	key := extensionKey{extended, num}
	if known := l.extensions.Load(); known != nil {
		if f := (*known)[key]; f != nil {
			return f, nil
		}
	}
	if !extended.desc.ExtensionRanges().Has(num) {
		return nil, nil
	}
	t, err := l.types.FindExtensionByNumber(extended.desc.FullName(), num)
	if errors.Is(err, protoregistry.NotFound) || err == nil && t == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("extension %d of %s: %w", num, extended.desc.FullName(), err)
	}
	return l.extensionPlan(key, t)
}

// errNotExtending is what became of the extension of another message.
var errNotExtending = errors.New("it extends another message")

// extensionByName finds the extension of a message that has the full name; nil: none is known.
func (l *lookup) extensionByName(extended *messagePlan, name []byte) (*fieldPlan, error) {
	if known := l.names.Load(); known != nil {
		if f := (*known)[extensionName{extended, string(name)}]; f != nil {
			return f, nil
		}
	}
	t, err := l.types.FindExtensionByName(protoreflect.FullName(name))
	if errors.Is(err, protoregistry.NotFound) || err == nil && t == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("extension %.100q: %w", name, err)
	}
	xd := t.TypeDescriptor()
	if xd.ContainingMessage().FullName() != extended.desc.FullName() || !extended.desc.ExtensionRanges().Has(xd.Number()) {
		return nil, fmt.Errorf("extension %.100q: %w", name, errNotExtending)
	}
	f, err := l.extensionPlan(extensionKey{extended, xd.Number()}, t)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	remember(&l.names, extensionName{extended, string(name)}, f)
	return f, nil
}

func (l *lookup) extensionPlan(key extensionKey, t protoreflect.ExtensionType) (*fieldPlan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.extensions.Load(); known != nil {
		if f := (*known)[key]; f != nil {
			return f, nil
		}
	}
	f, err := l.plans.extension(t.TypeDescriptor())
	if err != nil {
		return nil, err
	}
	remember(&l.extensions, key, f)
	return f, nil
}

// remember adds to a map that others read meanwhile. Its writers hold a lock.
func remember[K comparable, V any](p *atomic.Pointer[map[K]V], key K, value V) {
	next := make(map[K]V)
	if known := p.Load(); known != nil {
		next = maps.Clone(*known)
	}
	next[key] = value
	p.Store(&next)
}

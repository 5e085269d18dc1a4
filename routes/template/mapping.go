package template

// A mapping is a map from strings, kept as a slice while it is small: that is
// how most of a trie's nodes are, and there it is faster. (After net/http's
// mapping.go.)
type mapping[V any] struct {
	small []entry[V]
	large map[string]V
}

type entry[V any] struct {
	key   string
	value V
}

// maxSmall is net/http's measured break-even point.
const maxSmall = 8

func (m *mapping[V]) find(key string) (value V, ok bool) {
	if m.large != nil {
		value, ok = m.large[key]
		return value, ok
	}
	for i := range m.small {
		if m.small[i].key == key {
			return m.small[i].value, true
		}
	}
	return value, false
}

// add adds a key that is not there yet.
func (m *mapping[V]) add(key string, value V) {
	switch {
	case m.large != nil:
		m.large[key] = value
	case len(m.small) < maxSmall:
		m.small = append(m.small, entry[V]{key, value})
	default:
		m.large = make(map[string]V, maxSmall+1)
		for _, e := range m.small {
			m.large[e.key] = e.value
		}
		m.large[key] = value
		m.small = nil
	}
}

// each calls f for every key, in no order.
func (m *mapping[V]) each(f func(key string, value V)) {
	for _, e := range m.small {
		f(e.key, e.value)
	}
	for k, v := range m.large {
		f(k, v)
	}
}

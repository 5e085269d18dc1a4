package discovery

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxMembers bounds how many registrations of one key are looked at.
const maxMembers = 4096

// kv is a registration as etcd holds it.
type kv struct {
	key      string
	value    string
	revision int64 // of its last change
}

// members turns what etcd says of one key into the endpoints that are told to
// gRPC. It is a plain value without clock or lock: its owner says what time it is.
type members struct {
	grace
	layout layout
	log    *slog.Logger

	live map[string]member // by etcd key
}

type member struct {
	kv
	endpoint endpoint
	ok       bool // the value was understood
}

func newMembers(l layout, period time.Duration, log *slog.Logger) *members {
	return &members{grace: newGrace(period), layout: l, log: log, live: make(map[string]member)}
}

// put notes a registration that is new or changed. A value that cannot be
// understood is ignored, with one warning as long as it stays.
func (m *members) put(r kv) {
	known, exists := m.live[r.key]
	if exists && known.value == r.value {
		known.revision = r.revision
		m.live[r.key] = known
		return
	}
	if !exists && len(m.live) >= maxMembers {
		m.log.Warn("more registrations than are looked at", "etcd_key", r.key, "limit", maxMembers)
		return
	}
	e, err := parseEndpoint(m.layout, []byte(r.value))
	if err != nil {
		m.log.Warn("ignoring a malformed registration", "etcd_key", r.key, "error", err)
	}
	m.live[r.key] = member{kv: r, endpoint: e, ok: err == nil}
}

func (m *members) remove(key string) { delete(m.live, key) }

// replace makes the registrations exactly those listed, and reports whether
// that changed anything.
func (m *members) replace(listed []kv) bool {
	changed := false
	keys := make(map[string]bool, len(listed))
	for _, r := range listed {
		keys[r.key] = true
		if known, ok := m.live[r.key]; !ok || known.value != r.value {
			changed = true
		}
	}
	before := len(m.live)
	maps.DeleteFunc(m.live, func(key string, _ member) bool { return !keys[key] })
	changed = changed || len(m.live) != before
	for _, r := range listed {
		m.put(r)
	}
	return changed
}

// settle returns the sorted endpoints to tell gRPC of, after all changes that
// came together were noted.
func (m *members) settle(now time.Time) []endpoint { return m.grace.settle(m.current(), now) }

// current returns the endpoints of the live registrations, sorted, each address
// once: a restarted instance's old registration may stand beside its new one,
// and the newest tells its metadata.
func (m *members) current() []endpoint {
	newest := make(map[string]member, len(m.live))
	for _, r := range m.live {
		if !r.ok {
			continue
		}
		if other, ok := newest[r.endpoint.address]; !ok || other.revision < r.revision ||
			other.revision == r.revision && other.key < r.key {
			newest[r.endpoint.address] = r
		}
	}
	endpoints := make([]endpoint, 0, len(newest))
	for _, r := range newest {
		endpoints = append(endpoints, r.endpoint)
	}
	slices.SortFunc(endpoints, byAddress)
	return endpoints
}

func byAddress(a, b endpoint) int {
	return cmp.Or(strings.Compare(a.address, b.address), strings.Compare(a.metadata, b.metadata))
}

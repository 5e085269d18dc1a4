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
//
// An endpoint that is removed while others remain is gone at once. When the
// last one goes, all that were known are held for the grace period, beside
// those that come (back) meanwhile: a store that lost its content, a burst of
// expired leases, or a key that is deleted and written again must neither empty
// the list nor put the whole load on the first instance to return.
type members struct {
	layout layout
	grace  time.Duration
	log    *slog.Logger

	live map[string]member       // by etcd key
	last []endpoint              // the sorted endpoints of live when it was last looked at
	held map[string]heldEndpoint // by address
}

type member struct {
	kv
	endpoint endpoint
	ok       bool // the value was understood
}

type heldEndpoint struct {
	endpoint endpoint
	until    time.Time
}

func newMembers(l layout, grace time.Duration, log *slog.Logger) *members {
	return &members{
		layout: l, grace: grace, log: log,
		live: make(map[string]member), held: make(map[string]heldEndpoint),
	}
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
func (m *members) settle(now time.Time) []endpoint {
	current := m.current()
	if len(current) == 0 {
		for _, e := range m.last {
			m.held[e.address] = heldEndpoint{e, now.Add(m.grace)}
		}
	}
	m.last = current
	maps.DeleteFunc(m.held, func(_ string, h heldEndpoint) bool { return !now.Before(h.until) })
	for _, e := range current {
		delete(m.held, e.address)
	}
	if len(m.held) == 0 {
		return current
	}
	told := slices.Clone(current)
	for _, h := range m.held {
		told = append(told, h.endpoint)
	}
	slices.SortFunc(told, byAddress)
	return told
}

// extendGrace lets what is held stay for a whole grace period from now: while
// etcd could not be asked, nobody could register again.
func (m *members) extendGrace(now time.Time) {
	for address, h := range m.held {
		h.until = now.Add(m.grace)
		m.held[address] = h
	}
}

// nextExpiry is when settle will have less to tell though nothing changed;
// zero: never.
func (m *members) nextExpiry() time.Time {
	var next time.Time
	for _, h := range m.held {
		if next.IsZero() || h.until.Before(next) {
			next = h.until
		}
	}
	return next
}

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

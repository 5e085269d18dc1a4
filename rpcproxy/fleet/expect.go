package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/rpcgate/rpcgate/config"
)

// expectation is metadata that some endpoint is to have.
type expectation struct {
	match config.Match
	unmet bool // no endpoint has it, as was told
}

// Expect says what filters' rules look for, in place of what it said before. As
// their calls go elsewhere where no endpoint matches, a rule that is misspelt
// would show nowhere: an [Unmatched] event tells of each that, as of now or by a
// later list of discovery's, no endpoint matches, be it used or not. It is told
// once until one does.
func (f *Fleet) Expect(rules []config.Match) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.expected
	f.expected = make([]expectation, len(rules))
	for i, rule := range rules {
		known := slices.IndexFunc(before, func(e expectation) bool { return maps.Equal(e.match, rule) })
		f.expected[i] = expectation{match: rule, unmet: known >= 0 && before[known].unmet}
	}
	f.compareLocked()
}

// compareLocked tells of what is expected and not in the list. Without endpoints
// there is nothing to compare.
func (f *Fleet) compareLocked() {
	if len(f.list) == 0 {
		return
	}
	var unmet []Event
	for i := range f.expected {
		e := &f.expected[i]
		before := e.unmet
		e.unmet = !slices.ContainsFunc(f.list, func(info Info) bool { return matches(e.match, info.Metadata) })
		if e.unmet && !before {
			unmet = append(unmet, Event{Kind: Unmatched, Detail: describe(e.match), Endpoints: len(f.list)})
		}
	}
	if len(unmet) > 0 {
		f.change(func() { f.events = append(f.events, unmet...) })
	}
}

// describe is a rule as text: "version=v2 zone=a".
func describe(rule config.Match) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(rule)) {
		parts = append(parts, key+"="+rule[key])
	}
	return strings.Join(parts, " ")
}

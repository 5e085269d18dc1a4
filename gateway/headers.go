package gateway

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// headerRules are one route's rules for what travels beside the messages,
// compiled. nil: it has none, as most have.
type headerRules struct{ request, response *ruleList }

// rulesOf compiles a route's rules; spare is the backend that its fallback may
// ask, or nil.
func rulesOf(r *routes.Route, spare *config.Backend) *headerRules {
	request := r.RequestHeaders
	if wanted := wantedHeaders(r, spare); len(wanted) > 0 {
		request = slices.Concat([]config.HeaderRules{{Allow: wanted}}, request)
	}
	rules := headerRules{request: compileRules(request), response: compileRules(r.ResponseHeaders)}
	if rules == (headerRules{}) {
		return nil
	}
	return &rules
}

// wantedHeaders are those that a route's policies look at: JSON callers send
// them under their own names, too.
func wantedHeaders(r *routes.Route, spare *config.Backend) []string {
	var wanted []string
	if r.IdempotencyKey {
		wanted = append(wanted, keyIdempotency)
	}
	canaries, looked := r.Canary, []string{r.HashHeader}
	if spare != nil {
		canaries = slices.Concat(canaries, spare.Canary)
		if spare.Balancer.Policy == "ring_hash" {
			looked = append(looked, spare.Balancer.HashHeader)
		}
	}
	for _, c := range canaries {
		looked = append(looked, c.Header)
	}
	for _, name := range looked {
		if name != "" && !slices.Contains(wanted, name) {
			wanted = append(wanted, name)
		}
	}
	return wanted
}

func (r *headerRules) forRequest() *ruleList {
	if r == nil {
		return nil
	}
	return r.request
}

func (r *headerRules) forResponse() *ruleList {
	if r == nil {
		return nil
	}
	return r.response
}

// ruleList is a chain of rules, the more general first. Its methods work on
// nil, which changes nothing.
type ruleList struct {
	stages []ruleStage
	set    map[string][]string // what is put in, once all is said
}

type ruleStage struct {
	allow, deny patterns
	rename      map[string]string // in lower case
}

// compileRules compiles rules that config has found valid.
func compileRules(all []config.HeaderRules) *ruleList {
	var l ruleList
	for _, rules := range all {
		if rules.IsZero() {
			continue
		}
		stage := ruleStage{allow: compilePatterns(rules.Allow), deny: compilePatterns(rules.Deny), rename: lowerKeys(rules.Rename)}
		for from, to := range stage.rename {
			stage.rename[from] = strings.ToLower(to)
		}
		l.stages = append(l.stages, stage)
		l.stageSet(stage, rules.Set)
	}
	if len(l.stages) == 0 {
		return nil
	}
	return &l
}

// stageSet takes what earlier stages put in through a stage, and adds what it
// puts in itself.
func (l *ruleList) stageSet(stage ruleStage, set map[string]string) {
	next := make(map[string][]string, len(l.set)+len(set))
	for _, key := range slices.Sorted(maps.Keys(l.set)) {
		if now, denied := stage.then(key, key); !denied {
			next[now] = l.set[key]
		}
	}
	for key, value := range set {
		next[strings.ToLower(key)] = []string{value}
	}
	l.set = next
}

// key says under which key something goes on whose own name is name, and which
// without rules would go on as key; "" is not at all. Both are in lower case.
// What is reserved keeps its key.
func (l *ruleList) key(name, key string) string {
	for i := range l.stages {
		stage := &l.stages[i]
		if !config.ReservedHeader(name) && stage.allow.match(name) {
			key = name
		}
		now, denied := stage.then(name, key)
		if denied {
			now = ""
		}
		key = now
	}
	if _, ok := l.set[key]; ok {
		return "" // it gives way
	}
	return key
}

// then is what a stage says after its allow.
func (s *ruleStage) then(name, key string) (now string, denied bool) {
	for _, k := range [...]string{name, key} {
		if !config.ReservedHeader(k) && s.deny.match(k) {
			return "", true
		}
	}
	for _, k := range [...]string{name, key} {
		if to, ok := s.rename[k]; ok {
			return to, false
		}
	}
	return key, false
}

// plain says whether what a backend sends under key goes out to JSON callers
// by that very name.
func (l *ruleList) plain(key string) bool {
	if l == nil || config.ReservedHeader(key) {
		return false
	}
	if _, ok := l.set[key]; ok {
		return true
	}
	for i := range l.stages {
		stage := &l.stages[i]
		if stage.allow.match(key) {
			return true
		}
		for _, to := range stage.rename {
			if to == key {
				return true
			}
		}
	}
	return false
}

// apply applies the rules to metadata that has its own names for keys, in
// place. The reserved keys stay as they are.
func (l *ruleList) apply(md metadata.MD) metadata.MD {
	if l == nil {
		return md
	}
	type moved struct {
		to, from string
		values   []string
	}
	var moves []moved
	for key, values := range md {
		if config.ReservedHeader(key) {
			continue
		}
		if to := l.key(key, key); to != key {
			delete(md, key)
			if to != "" {
				moves = append(moves, moved{to, key, values})
			}
		}
	}
	// In an order of their own, as that of a map is chance.
	slices.SortFunc(moves, func(a, b moved) int { return strings.Compare(a.from, b.from) })
	for _, m := range moves {
		md[m.to] = slices.Concat(md[m.to], m.values)
	}
	return md
}

// applySet puts in what the rules set.
func (l *ruleList) applySet(md metadata.MD) metadata.MD {
	if l == nil || len(l.set) == 0 {
		return md
	}
	if md == nil {
		md = make(metadata.MD, len(l.set))
	}
	for key, values := range l.set {
		md[key] = slices.Clip(values)
	}
	return md
}

// patterns are names in lower case, and beginnings of names.
type patterns struct {
	names    map[string]struct{}
	prefixes []string
}

func compilePatterns(list []string) patterns {
	p := patterns{names: make(map[string]struct{}, len(list))}
	for _, text := range list {
		name := strings.ToLower(text)
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			p.prefixes = append(p.prefixes, prefix)
		} else {
			p.names[name] = struct{}{}
		}
	}
	return p
}

func (p patterns) match(name string) bool {
	if _, ok := p.names[name]; ok {
		return true
	}
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func lowerKeys(m map[string]string) map[string]string {
	lower := make(map[string]string, len(m))
	for key, value := range m {
		lower[strings.ToLower(key)] = value
	}
	return lower
}

package config

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// entry is one key of a mapping, with its value.
type entry struct{ key, value *yaml.Node }

// entries lists the keys of a mapping, those that it merges in (<<) last: a key
// of the mapping's own goes before a merged one, an earlier merged one before a
// later. A key that is given twice is a fault, and its first value holds.
func (d *decoder) entries(n *yaml.Node, path string) []entry {
	own := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	var merges []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fault(n.Content[i], path, "a key is %s, but text is wanted", describe(key))
			continue
		case key.ShortTag() == "!!merge":
			merges = append(merges, entry{key, value})
			continue
		}
		if first, ok := seen[key.Value]; ok {
			d.fault(key, keyPath(path, key.Value), "duplicate key; the first is in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		own = append(own, entry{key, value})
	}
	if len(merges) > 1 {
		d.fault(merges[1].key, path, "<< twice; merge a list instead: <<: [*one, *other]")
	}
	if len(merges) == 0 {
		return own
	}
	for _, e := range d.merged(merges[0].value, path) {
		if _, ok := seen[e.key.Value]; !ok {
			seen[e.key.Value] = e.key.Line
			own = append(own, e)
		}
	}
	return own
}

// merged lists the keys that << brings in: those of one mapping, or of each in a list.
func (d *decoder) merged(n *yaml.Node, path string) []entry {
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	if slices.Contains(d.inside, target) {
		d.fault(n, path, "<< merges a section into itself")
		return nil
	}
	d.inside = append(d.inside, target)
	defer func() { d.inside = d.inside[:len(d.inside)-1] }()
	if d.spend(n, path, 1+len(target.Content)); d.stopped {
		return nil
	}
	switch target.Kind {
	case yaml.MappingNode:
		return d.entries(target, path)
	case yaml.SequenceNode:
		var all []entry
		for _, item := range target.Content {
			all = append(all, d.merged(item, path)...)
		}
		return all
	default:
		d.fault(n, path, "<< takes a section with keys, or a list of such")
		return nil
	}
}

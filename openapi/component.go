package openapi

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A component is the schema of one backend's message or enum. Where it stands
// in the document is known when all are there.
type component struct {
	backend string // empty: the gateway's own
	name    protoreflect.FullName
	schema  object
	key     string
	uses    []*component
	bytes   []byte // with every component under its own name
	apart   bool   // its backend's is not the others'
}

func (c *component) reference() string { return "#/components/schemas/" + c.key }

// A componentID finds a component: names mean what their backend says.
type componentID struct {
	backend string
	name    protoreflect.FullName
}

// nameComponents gives every component its key: its full name, with the
// backend's behind it where several backends' differ, by their own text or by
// that of what they use. The first backend's stays without. The result is
// sorted, and has one component for each key.
func nameComponents(all []*component) []*component {
	byName := make(map[protoreflect.FullName][]*component)
	for _, c := range all { // in the backends' order
		byName[c.name] = append(byName[c.name], c)
		c.bytes = appendJSON(nil, c.schema)
		c.uses = referred(nil, c.schema)
	}
	differ := make(map[protoreflect.FullName]bool)
	for name, same := range byName {
		if slices.ContainsFunc(same, func(c *component) bool { return !bytes.Equal(c.bytes, same[0].bytes) }) {
			differ[name] = true
		}
	}
	spread(all, differ)
	used := make(map[string]bool, len(all))
	var named []*component
	for _, c := range all {
		same := byName[c.name]
		switch {
		case c == same[0]:
			used[c.key] = true
			named = append(named, c)
		case differ[c.name]:
			c.apart = true
			named = append(named, c)
		}
	}
	for _, c := range named {
		if !c.apart {
			continue
		}
		key := c.key + "-" + plainKey(c.backend)
		for n := 2; used[key]; n++ {
			key = c.key + "-" + plainKey(c.backend) + "-" + strconv.Itoa(n)
		}
		c.key = key
		used[key] = true
	}
	slices.SortFunc(named, func(a, b *component) int { return cmp.Compare(a.key, b.key) })
	return named
}

// spread adds to the names that differ those of what uses them.
func spread(all []*component, differ map[protoreflect.FullName]bool) {
	users := make(map[protoreflect.FullName][]protoreflect.FullName)
	for _, c := range all {
		for _, used := range c.uses {
			users[used.name] = append(users[used.name], c.name)
		}
	}
	var work []protoreflect.FullName
	for name := range differ {
		work = append(work, name)
	}
	for len(work) > 0 {
		name := work[len(work)-1]
		work = work[:len(work)-1]
		for _, user := range users[name] {
			if !differ[user] {
				differ[user] = true
				work = append(work, user)
			}
		}
	}
}

// plainKey gives a text of the characters that component keys may have.
func plainKey(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// referred adds the components that a value refers to.
func referred(found []*component, value any) []*component {
	switch v := value.(type) {
	case object:
		for _, m := range v {
			found = referred(found, m.value)
		}
	case array:
		for _, e := range v {
			found = referred(found, e)
		}
	case *component:
		if !slices.Contains(found, v) {
			found = append(found, v)
		}
	}
	return found
}

package config

import (
	"fmt"
	"strings"
)

// expand replaces the references to environment variables in one value:
//
//	${NAME}           its value; it must be set
//	${NAME:-default}  its value, or the default where it is unset or empty; the default ends at the first }
//	$$                a $
//
// Any other $ stands for itself. What a variable holds is not looked at again,
// and as expansion happens on values that YAML has been read from already, it
// stays one value whatever it holds. The error repeats only what the file says.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		switch text[i+1] {
		case '$':
			b.WriteByte('$')
			text = text[i+2:]
		case '{':
			reference, rest, ok := strings.Cut(text[i+2:], "}")
			if !ok {
				return "", fmt.Errorf("has a ${ without its }; write $$ for a plain $")
			}
			value, err := resolve(reference, lookup)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = rest
		default:
			b.WriteByte('$')
			text = text[i+1:]
		}
	}
}

// resolve gives the value of what stands between ${ and }.
func resolve(reference string, lookup func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(reference, ":-")
	if !isEnvName(name) {
		return "", fmt.Errorf("has a reference to an environment variable that is neither ${NAME} nor ${NAME:-default}; write $$ for a plain $")
	}
	if strings.Contains(fallback, "${") {
		return "", fmt.Errorf("has a ${ in the default of %s, where none may stand", name)
	}
	value, set := lookup(name)
	switch {
	case set && (value != "" || !hasFallback):
		return value, nil
	case hasFallback:
		return fallback, nil
	default:
		return "", fmt.Errorf("needs the environment variable %s, which is not set; set it, or give a default: ${%s:-…}", name, name)
	}
}

func isEnvName(name string) bool {
	if name == "" || len(name) > maxQuoted {
		return false
	}
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return true
}

// hasReference tells whether expand would put an environment variable's value into the text.
func hasReference(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, "$$", ""), "${")
}

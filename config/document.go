package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFileSize bounds a configuration file, in bytes. Thousands of routes fit.
const maxFileSize = 1 << 20

// parseDocument reads the one YAML document of a file. It is nil where the file
// has nothing but comments.
func parseDocument(data []byte) (*yaml.Node, *Fault) {
	if len(data) > maxFileSize {
		return nil, &Fault{Line: 1, Column: 1, Message: "the file is larger than " + Size(maxFileSize).String()}
	}
	if fault := checkText(data); fault != nil {
		return nil, fault
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxFault(data, err)
	}
	var second yaml.Node
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntaxFault(data, err)
	default:
		return nil, &Fault{Line: second.Line, Column: max(second.Column, 1), Message: "a second YAML document; one file holds one configuration"}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// checkText finds what YAML refuses without saying where.
func checkText(data []byte) *Fault {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &Fault{Line: line, Column: column, Message: "not UTF-8"}
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', 0x7f <= r && r < 0xa0 && r != 0x85, r == 0xfeff && i > 0, r == 0xfffe, r == 0xffff:
			return &Fault{Line: line, Column: column, Message: fmt.Sprintf("control character %U", r)}
		}
		i += n
		column++
	}
	return nil
}

var (
	yamlLine   = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)
	yamlAnchor = regexp.MustCompile(`^yaml: unknown anchor '([^']*)' referenced$`)
	// yamlGrammar is what the parser says, as against the scanner below it. Its
	// lines are counted from 0, the scanner's from 1.
	yamlGrammar = regexp.MustCompile(`^did not find expected (<.*>|node content|'-' indicator|key|',' or '[\]}]')$` +
		`|^found (undefined tag handle|duplicate %|incompatible YAML document)`)

	yamlQuoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	// braceInFlow is an unquoted value with a brace within [ ] or { }, such as
	// {get: /v1/{id}}.
	braceInFlow = regexp.MustCompile(`[\[{].*[^\s,\[{]\{`)
)

// syntaxFault takes the place out of an error of the YAML parser. Its errors
// repeat nothing of the file but names of anchors.
func syntaxFault(data []byte, err error) *Fault {
	text, _, _ := strings.Cut(err.Error(), "\n")
	fault := &Fault{Line: 1, Column: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			fault.Line = max(line, 1)
		}
		text = m[2]
		if yamlGrammar.MatchString(text) {
			fault.Line = min(fault.Line+1, countLines(data))
		}
	} else if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		if before, _, ok := bytes.Cut(data, []byte("*"+m[1])); ok {
			fault.Line += bytes.Count(before, []byte("\n"))
			fault.Column = len(before) - bytes.LastIndexByte(before, '\n')
		}
		text = "the anchor " + quote(m[1]) + " is not defined above"
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if strings.HasPrefix(text, "did not find expected ',' or ") &&
		braceInFlow.Match(yamlQuoted.ReplaceAll(lineOf(data, fault.Line), nil)) {
		text += "; put values with { } in quotes"
	}
	fault.Message = "not valid YAML: " + text
	return fault
}

// countLines counts the lines of a file, which may end without a newline.
func countLines(data []byte) int {
	return bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) + 1
}

// lineOf gives a line, counted from 1.
func lineOf(data []byte, line int) []byte {
	for range line - 1 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	before, _, _ := bytes.Cut(data, []byte("\n"))
	return before
}

// describe names what stands at a node.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section with keys"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	default:
		return "text"
	}
}

package openapi

import "strings"

// paragraphs puts texts that are not empty behind one another.
func paragraphs(texts ...string) string {
	var b strings.Builder
	for _, t := range texts {
		t = strings.TrimSpace(t)
		if t == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(t)
	}
	return b.String()
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// maxSummary is how many bytes a summary may have.
const maxSummary = 120

// summarize gives the first sentence of a comment; empty where it is too long
// for a summary.
func summarize(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	first = oneLine(first)
	if i := strings.Index(first, ". "); i >= 0 {
		first = first[:i+1]
	}
	if len(first) > maxSummary {
		return ""
	}
	return strings.TrimSuffix(first, ".")
}

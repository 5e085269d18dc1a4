package routes

import "fmt"

// hint asks whether the known name nearest to a misspelt one was meant; empty
// if none is near.
func hint(name string, known []string) string {
	const longest = 128 // bounds the work
	if len(name) > longest {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(name)/4)
	for _, k := range known {
		if len(k) > longest {
			continue
		}
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the Levenshtein distance, by the bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

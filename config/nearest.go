package config

import "strings"

// Nearest finds the known name that a misspelt one was probably meant to be;
// empty where none is near.
func Nearest(name string, known []string) string {
	const longest = 128 // bounds the work
	if name == "" || len(name) > longest {
		return ""
	}
	folded := fold(name)
	best, bestDistance := "", 1+max(1, len(folded)/3)
	for _, k := range known {
		if len(k) > longest {
			continue
		}
		if d := distance(folded, fold(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// fold takes out what spellings of one name differ in: maxBodySize, max-body-size, max_body_size.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// distance is the optimal string alignment distance of two texts: how many
// bytes are to be put in, taken out, replaced, or swapped with their neighbour,
// to make one the other.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

package routes

import (
	"fmt"

	"github.com/rpcgate/rpcgate/config"
)

// hint asks whether the known name nearest to a misspelt one was meant; empty
// if none is near.
func hint(name string, known []string) string {
	if best := config.Nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

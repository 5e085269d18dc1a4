package balancer

import (
	"context"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// ChoiceKey is what the context of an attempt answers with the attempt's
// *[fleet.Choice]. Whoever makes attempts does so by a context type of its own,
// whose Value knows this key: context.WithValue would be one more allocation
// for each.
type ChoiceKey struct{}

// ChoiceOf is the choice that the attempt with this context makes; nil: it is
// none of a call's, such as one of reflection, and any endpoint will do.
func ChoiceOf(ctx context.Context) *fleet.Choice {
	c, _ := ctx.Value(ChoiceKey{}).(*fleet.Choice)
	return c
}

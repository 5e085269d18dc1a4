package rpcproxy

import (
	"context"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// RetryBudget is how many retries and hedges there may be at once now.
func (b *Backend) RetryBudget() int { return b.retrier.budget.left() }

// ExpectCanaries says which metadata the filters of calls look for, so that the
// log tells of those that no endpoint has. It takes the place of what was said
// before.
func (b *Backend) ExpectCanaries(matches []config.Match) { b.fleet.Expect(matches) }

// Endpoints shows the backend's endpoints as discovery tells of them, with what
// is known of each, be there connections to it or not. Where discovery has not
// answered yet, it waits until ctx is done. There are none of targets whose
// endpoints are not told, which are xDS's.
func (b *Backend) Endpoints(ctx context.Context) []fleet.EndpointView {
	// What goes wrong with discovery shows in the log; here it is an empty list.
	_, _ = b.direct.dialer.book.all(ctx, b.target, b.direct.dialer.resolvers)
	return b.fleet.View()
}

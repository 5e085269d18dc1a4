package balancer

import "context"

type streamKey struct{}

// WithStream marks the context of a call that streams. How long it takes then
// says nothing about its endpoint.
func WithStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, true)
}

func isStream(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }

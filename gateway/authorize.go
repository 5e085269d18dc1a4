package gateway

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/routes"
)

// targetOf is what a call of the route wants of a principal's scopes. The path
// is the route's template: how a caller spelt its own is of no account.
func targetOf(r *routes.Route) scope.Target {
	return scope.Target{Method: strings.TrimPrefix(r.FullMethod, "/"), Verb: r.HTTPMethod, Path: r.Template}
}

// authorize lets only calls through that both the app's and the token's scopes
// allow. It stands before whatever answers in the backend's place.
func authorize(r *routes.Route) step {
	target := targetOf(r)
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			if !c.Principal.Allows(target) {
				return scopeMissing(c.Principal.Missing(target))
			}
			return next(ctx, c)
		}
	}
}

func scopeMissing(scope string) *callError {
	return &callError{
		Code: codes.PermissionDenied, Reason: "SCOPE_MISSING",
		Message: "the credential may not call this: it needs the scope " + scope,
		info:    map[string]string{"scope": scope},
	}
}

// errSource is for a token that is used from where it may not be. Only who has
// its secret is told.
var errSource = &callError{
	Code: codes.PermissionDenied, Reason: "SOURCE_NOT_ALLOWED",
	Message: "the token may not be used from this address",
}

package rpcproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// Request says what to call and how. Forward only reads it.
type Request struct {
	// The full method name, "/package.Service/Method", from the route table.
	Method string
	// Which sides send a stream of messages. Neither: the unary road.
	ClientStreams, ServerStreams bool
	// On whose behalf. The zero value: nobody's (routes with auth: none).
	Credential Credential
	// Whose share of the backend's places it takes.
	Tenant limits.Tenant
	// Tells whether Credential was revoked since it was verified; nil: it cannot
	// be. It closes the gap between the verification and the connection.
	Revocable interface{ Revoked() bool }
	// The metadata for the backend, already filtered. Forward does not change
	// it, and it must not change before Forward returns.
	Metadata metadata.MD
	// What the gateway says of the caller, as keys and values in turn. Metadata has
	// none of these keys. It is shared, and never changed.
	Identity []string
	// When the caller gives up, at the latest; zero: it did not say.
	Deadline time.Time
	// The route's own limit, in place of the backend's; 0: the backend's.
	Timeout time.Duration
	// The call may be repeated though something of it reached the backend.
	Idempotent bool
	// The method says of itself that it does nothing: it may be hedged.
	NoSideEffects bool
	// How many attempts there may be; 0: as the backend's configuration has it.
	MaxAttempts int
	// Which endpoints the call may go to; nil: any.
	Filter *fleet.Filter
	// What keeps its endpoint under ring_hash, in place of the app; empty: the app.
	HashKey string
	// Reads HashKey from the one request message of a caller that does not stream,
	// where that is not known before; nil: HashKey is all there is.
	HashOf func(mem.BufferSlice) string
	// Goes to this endpoint and no other, be it among those that the backend's
	// connections use or not; empty: the balancer's choice.
	Endpoint string
	// Reads from the one response of a unary call whether it was a success; nil:
	// any is.
	Judge func(mem.BufferSlice) bool
	// Whether a response that Judge finds to be none is a failure to the breaker.
	JudgeCounts bool
	// Where Forward notes how the call was served, before it gives the exchange
	// anything; nil: nowhere.
	Served *Served
	// How to compress messages to the backend; empty or "identity": not at all.
	// The compressor must be registered with grpc-go.
	Compressor string
}

// Served is how a call was served.
type Served struct {
	// How many attempts were begun, hedges among them.
	Attempts int
	// The endpoint of the attempt whose outcome became the call's; empty: it got
	// to none.
	Endpoint string
	// What Judge said.
	Failed bool
}

// Exchange is the caller's side of one call. The gateway's call implements it.
//
// All its methods are called from the goroutine that called Forward; except
// that RecvMsg of a call with ClientStreams is called from one other goroutine,
// at the same time as the rest. A blocked RecvMsg must return once the context
// given to Forward is done or the caller's stream is over. Forward does not wait
// for it once the backend has ended the call: see [Backend.Forward].
type Exchange interface {
	// RecvMsg returns the next request message, io.EOF after the last. The
	// receiver owns the message and frees it.
	RecvMsg() (mem.BufferSlice, error)
	// SendHeader passes on the response headers, which become the exchange's. It
	// is called at most once and before the first SendMsg.
	SendHeader(metadata.MD) error
	// SendMsg passes on a response message and takes ownership of it, also when
	// it fails.
	SendMsg(mem.BufferSlice) error
	// SetTrailer passes on the trailers, which become the exchange's, before
	// Forward returns.
	SetTrailer(metadata.MD)
}

// Credential is what a connection, or a call, is authenticated with towards
// the backend, and the key of the [Pool]. It prints without the token.
type Credential struct {
	// The tenant.
	App string
	// The public part of the token, by which it is revoked. Empty where tokens
	// have none.
	TokenID string
	// The secret, as sent to the backend.
	Token string
}

// IsZero tells whether there is no credential at all.
func (c Credential) IsZero() bool { return c == Credential{} }

// String names the credential without its secret.
func (c Credential) String() string {
	if c.IsZero() {
		return "none"
	}
	return fmt.Sprintf("app %q token id %q", c.App, c.TokenID)
}

// Format keeps the secret out of every verb, %#v and %x included.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue keeps the secret out of slog.
func (c Credential) LogValue() slog.Value {
	return slog.GroupValue(slog.String("app", c.App), slog.String("token_id", c.TokenID))
}

// MarshalJSON keeps the secret out of JSON.
func (c Credential) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		App     string `json:"app"`
		TokenID string `json:"token_id"`
	}{c.App, c.TokenID})
}

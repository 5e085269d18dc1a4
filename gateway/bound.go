package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/limits"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/telemetry"
)

// owner is whose limit it is.
type owner uint8

const (
	ofApp owner = iota
	ofToken
	ofRoute

	ownerCount = iota
)

var ownerNames = [ownerCount]string{"app", "token", "route"}

// bounder is the step that bounds what an app, a token, and an app by one method
// may have in flight in this gateway, how large a message may be, and how long a
// stream may last.
type bounder struct {
	bounds   *limits.Bounds
	cfg      config.Limiting
	counters [boundCount][ownerCount]prometheus.Counter
}

// What is bounded.
const (
	boundConcurrency = iota
	boundStreams
	boundLifetime
	boundBody

	boundCount = iota
)

func newBounder(cfg config.Limiting, reg prometheus.Registerer) *bounder {
	b := &bounder{bounds: limits.NewBounds(), cfg: cfg}
	metrics := telemetry.NewBounds(reg)
	for i, name := range [boundCount]string{"concurrency", "streams", "stream_lifetime", "body"} {
		for w, of := range ownerNames {
			b.counters[i][w] = metrics.Counter(name, of)
		}
	}
	return b
}

// bounded is what bounds a call while it runs; the zero value does not.
type bounded struct {
	maxBody int64 // bytes of a body or message; 0: as the listener has it
	bodyOf  owner
	tooLong prometheus.Counter // of bodies
}

// routeBounds are the bounds of one route's calls.
type routeBounds struct {
	*bounder
	limits  config.Limits
	method  string
	streams bool
}

// bound is the step of a route.
func (b *bounder) bound(r *routes.Route) step {
	of := &routeBounds{bounder: b, limits: r.Limits, method: r.FullMethod, streams: r.ClientStreams || r.ServerStreams}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) error {
			var places [2 * ownerCount]*limits.Place
			defer leave(&places)
			if err := of.enter(c, &places); err != nil {
				return err
			}
			of.limitBody(c)
			if lifetime, w := of.lifetime(c); lifetime > 0 {
				return of.outlive(ctx, c, next, lifetime, w)
			}
			return next(ctx, c)
		}
	}
}

func leave(places *[2 * ownerCount]*limits.Place) {
	for _, p := range places {
		p.Leave()
	}
}

// each gives the value of one field of all limits that a call must keep. An app
// or a token whose record has none has the config's.
func (b *routeBounds) each(c *Call, field func(*config.Limits) int64) (values [ownerCount]int64) {
	if p := c.Principal; p != nil {
		values[ofApp] = cmp.Or(field(&p.AppLimits), field(&b.cfg.App))
		values[ofToken] = cmp.Or(field(&p.TokenLimits), field(&b.cfg.Token))
	}
	values[ofRoute] = field(&b.limits)
	return values
}

func concurrencyOf(l *config.Limits) int64 { return int64(l.Concurrency) }
func streamsOf(l *config.Limits) int64     { return int64(l.Streams) }
func lifetimeOf(l *config.Limits) int64    { return int64(l.StreamLifetime) }
func maxBodyOf(l *config.Limits) int64     { return int64(l.MaxBody) }

// enter takes the places that the call needs; those that it got stand in places
// also where one was not to be had.
func (b *routeBounds) enter(c *Call, places *[2 * ownerCount]*limits.Place) error {
	if w := b.take(c, limits.BoundCalls, b.each(c, concurrencyOf), places[:ownerCount]); w < ownerCount {
		b.counters[boundConcurrency][w].Inc()
		return errConcurrencyLimited[w]
	}
	if !b.streams {
		return nil
	}
	if w := b.take(c, limits.BoundStreams, b.each(c, streamsOf), places[ownerCount:]); w < ownerCount {
		b.counters[boundStreams][w].Inc()
		return errStreamsLimited[w]
	}
	return nil
}

// take takes a place of each limit that there is. It gives the one that has none
// left; ownerCount: all have.
func (b *routeBounds) take(c *Call, kind limits.BoundKind, values [ownerCount]int64, places []*limits.Place) owner {
	for w, limit := range values {
		if limit <= 0 {
			continue
		}
		var ok bool
		if places[w], ok = b.bounds.Enter(b.key(c, owner(w), kind), int(limit)); !ok {
			return owner(w)
		}
	}
	return ownerCount
}

// key is whose calls are counted together. Those of routes without a credential
// are nobody's, and share what there is for the method.
func (b *routeBounds) key(c *Call, w owner, kind limits.BoundKind) limits.BoundKey {
	key := limits.BoundKey{Kind: kind}
	if c.Principal != nil {
		key.App = c.Principal.App
	}
	switch w {
	case ofToken:
		key.Token = c.Principal.TokenID
		if key.Token == "" { // an app has but one, in zRPC's layout
			key.Token = "-"
		}
	case ofRoute:
		key.Method = b.method
	}
	return key
}

// limitBody sets how large a body or a message may be.
func (b *routeBounds) limitBody(c *Call) {
	limit, w := least(b.each(c, maxBodyOf))
	if limit > 0 {
		c.bound = bounded{maxBody: limit, bodyOf: w, tooLong: b.counters[boundBody][w]}
	}
}

// lifetime is how long the call may last, and by whose limit; 0: as long as it
// likes.
func (b *routeBounds) lifetime(c *Call) (time.Duration, owner) {
	if !b.streams {
		return 0, 0
	}
	limit, w := least(b.each(c, lifetimeOf))
	return time.Duration(limit), w
}

// least is the least that is not 0; 0: all are.
func least(values [ownerCount]int64) (limit int64, w owner) {
	for i, v := range values {
		if v > 0 && (limit == 0 || v < limit) {
			limit, w = v, owner(i)
		}
	}
	return limit, w
}

// outlive ends a stream when its time is over. It is cancelled, as by its caller,
// and not given a deadline: the backend would hear of that, and seem to be slow.
func (b *routeBounds) outlive(ctx context.Context, c *Call, next Handler, lifetime time.Duration, w owner) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(lifetime, func() { cancel(errStreamLifetime) })
	defer timer.Stop()
	err := next(ctx, c)
	if err != nil && errors.Is(context.Cause(ctx), errStreamLifetime) {
		b.counters[boundLifetime][w].Inc()
		return errStreamLifetime
	}
	return err
}

// bodyLimit is how many bytes a body or a message may have that the listener
// allows so many.
func (c *Call) bodyLimit(listener config.Size) int64 {
	if own := c.bound.maxBody; own > 0 {
		return min(own, int64(listener))
	}
	return int64(listener)
}

// overBody tells of a body or a message that is too large, as the peers have it,
// by whose limit it is.
func (c *Call) overBody(err error) error {
	b := &c.bound
	failure, ok := errors.AsType[*callError](err)
	if b.maxBody == 0 || !ok || failure.Reason != errBodyTooLarge.Reason && failure.Reason != errUploadedTooLarge.Reason {
		return err
	}
	b.tooLong.Inc()
	return bodyLimited(b.bodyOf, b.maxBody)
}

// Refusals, by whose limit it is.
var (
	errConcurrencyLimited = refusals("CONCURRENCY_LIMITED", [ownerCount]string{
		"the app has as many calls in flight as it may have",
		"the token has as many calls in flight as it may have",
		"as many calls of this method are in flight as there may be of one app",
	})
	errStreamsLimited = refusals("STREAMS_LIMITED", [ownerCount]string{
		"the app has as many streams open as it may have",
		"the token has as many streams open as it may have",
		"as many streams of this method are open as there may be of one app",
	})
	errStreamLifetime = &callError{
		Code: codes.DeadlineExceeded, Reason: "STREAM_LIFETIME",
		Message: "the stream has lasted as long as one may; open another",
	}
)

func refusals(reason string, messages [ownerCount]string) (all [ownerCount]*callError) {
	for w, message := range messages {
		all[w] = fixed(callError{Code: codes.ResourceExhausted, Reason: reason, Message: message, RetryAfter: time.Second})
	}
	return all
}

func bodyLimited(w owner, limit int64) *callError {
	return &callError{
		Code: codes.ResourceExhausted, Reason: errBodyTooLarge.Reason, httpStatus: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("the request body, or a message of it, is larger than the %s allows, which is %d bytes", ownerNames[w], limit),
	}
}

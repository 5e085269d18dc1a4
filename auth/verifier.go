package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/credcache"
)

// Verifier proves credentials against Redis, through a cache.
type Verifier struct {
	rdb     redis.UniversalClient
	layout  layout
	cache   *credcache.Cache[cacheKey, *record]
	keys    tenant.Keys
	channel string
	workers int           // that look up again what is remembered
	recheck time.Duration // how old a secret must be to be asked for again

	loadTimeout time.Duration

	imported imported
	hearing  atomic.Bool // revocations
	node     node
	store    storeState
	ended    *ended
	log      *slog.Logger
	onRevoke func(Revocation)
	metrics  *metrics
	timing   timing
}

// VerifierOptions are what a verifier reports to; the zero value is silence.
type VerifierOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// OnRevoke is called when a credential that may be in use is not valid any
	// more: on a revocation, and when a look-up finds it gone or changed. It
	// may be called more than once for one credential, by several goroutines,
	// and must not block.
	OnRevoke func(Revocation)
}

// NewVerifier makes a verifier. It asks Redis nothing yet.
func NewVerifier(rdb redis.UniversalClient, cfg config.Auth, o VerifierOptions) (*Verifier, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnRevoke == nil {
		o.OnRevoke = func(Revocation) {}
	}
	switch cfg.Mode {
	case "", "strict", "lenient":
	default:
		return nil, fmt.Errorf("auth: unknown mode %q", cfg.Mode)
	}
	if cfg.GoZero != nil && cfg.GoZero.Key == "" {
		return nil, errors.New("auth: gozero needs the key of the hash")
	}
	v := &Verifier{
		rdb:     rdb,
		keys:    tenant.KeysOf(cfg),
		channel: tenant.KeysOf(cfg).Revocations(),
		workers: min(maxVerifying, max(1, cmp.Or(cfg.Cache.MaxLoads, 128)/4)),
		recheck: cmp.Or(cfg.Cache.NegativeTTL, 5*time.Second),

		ended:       newEnded(),
		loadTimeout: cmp.Or(cfg.Cache.LoadTimeout, time.Second),

		log:      o.Logger,
		onRevoke: o.OnRevoke,
		timing:   defaultTiming(),
	}
	v.layout = newLayout(rdb, cfg, &v.imported)
	v.node.id = cfg.Node
	if v.node.id == "" {
		v.node.id = newNodeID()
	}
	var err error
	if v.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, fmt.Errorf("auth: register metrics: %w", err)
	}
	v.cache, err = credcache.New(credcache.Options{
		Name:            "credentials",
		Entries:         cfg.Cache.Entries,
		TTL:             cfg.Cache.TTL,
		NegativeEntries: cfg.Cache.NegativeEntries,
		NegativeTTL:     cfg.Cache.NegativeTTL,
		Stale:           cfg.Cache.Stale,
		ServeAnyStale:   cfg.Mode == "lenient",
		ErrorTTL:        cfg.Cache.ErrorTTL,
		LoadTimeout:     cfg.Cache.LoadTimeout,
		MaxLoads:        cfg.Cache.MaxLoads,
		Registerer:      o.Registerer,
	}, v.lookUp)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return v, nil
}

// Verify proves c, or tells why not: [ErrMalformed] (an app id that no parser lets
// through), [ErrInvalid], [ErrExpired], [ErrRevoked], [ErrSuspended],
// [ErrUnavailable], or, if ctx ended first, its error. Where the credential may be
// used from, and for what, is for the caller to ask the principal.
func (v *Verifier) Verify(ctx context.Context, c Credential) (*Principal, error) {
	// Whoever made c: the app id becomes part of a key in Redis.
	if err := ValidateApp(c.App); err != nil {
		return nil, err
	}
	id, hash, err := v.layout.parse(c.Token)
	if err != nil {
		return nil, &Error{kind: ErrInvalid, cause: err}
	}
	r, err := v.find(ctx, cacheKey{c.App, id}, &hash)
	if err != nil {
		return nil, err
	}
	if err := r.verdict(hash); err != nil {
		return nil, err
	}
	r.principal.state.use()
	return &r.principal, nil
}

// find gives what is remembered of k, or looks it up. hash is that of the secret
// that is presented; nil: there is none.
func (v *Verifier) find(ctx context.Context, k cacheKey, hash *[sha256.Size]byte) (*record, error) {
	r, ok := v.cache.Fresh(k)
	if !ok {
		var err error
		k = k.detached()
		if r, err = v.cache.Get(ctx, k); err != nil {
			return nil, v.refusal(ctx, err)
		}
	}
	if hash == nil || r.has(*hash) {
		return r, nil
	}
	// Where secrets change under one id (layout gozero), that may have been done
	// by hand, without a word to us; and in any layout, who guesses is not to be
	// told by the time that there is such a token. Asked at most once in a while,
	// so that wrong tokens are not a way to flood Redis.
	r, err := v.cache.GetWithin(ctx, k.detached(), v.recheck)
	if err != nil {
		return nil, v.refusal(ctx, err)
	}
	return r, nil
}

// verdict says what becomes of who presents a secret. What is told of a token is
// told only to who has its secret.
func (r *record) verdict(hash [sha256.Size]byte) error {
	switch {
	case !r.has(hash):
		return ErrInvalid
	case r.principal.Revoked():
		return ErrRevoked
	case !r.principal.Expires.IsZero() && !time.Now().Before(r.principal.Expires):
		return ErrExpired
	case r.suspended:
		return ErrSuspended
	}
	return nil
}

func (r *record) has(hash [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(r.hash[:], hash[:]) == 1
}

// refusal turns a failed look-up into what the caller gets.
func (v *Verifier) refusal(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, credcache.ErrNotFound):
		return ErrInvalid
	case ctx.Err() != nil:
		return fmt.Errorf("verify the credential: %w", context.Cause(ctx))
	default:
		return &Error{kind: ErrUnavailable, cause: err}
	}
}

// lookUp is the cache's loader. It runs once for all who wait, so it is also
// where a change of what is remembered is noticed.
func (v *Verifier) lookUp(ctx context.Context, k cacheKey) (*record, error) {
	start := time.Now()
	old, remembered := v.cache.Peek(k)
	r, err := v.load(ctx, k)
	v.metrics.lookedUp(time.Since(start), err)
	gone := errors.Is(err, credcache.ErrNotFound)
	if err != nil && !gone {
		return nil, err
	}
	if !gone {
		v.remind(ctx, k, r)
		r.principal.state = r.stateAfter(old)
	}
	// A look-up that comes late, when its flight is over, may have read what was
	// there before: it must not judge a record that a later one has stored.
	now, still := v.cache.Peek(k)
	if remembered && still && now == old && !old.barred() && (gone || r.barred() || !old.has(r.hash)) {
		old.principal.state.revoked.Store(true)
		v.metrics.revocations.WithLabelValues("look-up").Inc()
		v.log.InfoContext(ctx, "a credential is not valid any more", "app", k.app, "token_id", k.id, "found_by", "look-up")
		v.onRevoke(Revocation{App: k.app, TokenID: k.id})
	}
	return r, err
}

// remind has r, just looked up, be revoked if its token ever was.
func (v *Verifier) remind(ctx context.Context, k cacheKey, r *record) {
	if r.revoked {
		v.ended.add(k)
		return
	}
	revoked, first := v.ended.has(k)
	r.revoked = revoked
	if first {
		v.log.ErrorContext(ctx, "Redis has forgotten that a token was revoked, as a replica does that takes over too early; "+
			"it stays revoked here, and is not for gateways that start: revoke it again", "app", k.app, "token_id", k.id)
	}
}

// stateAfter is the state of r, found where old (nil: nothing) was remembered:
// old's, if r is what old was, so that who was verified by old hears of what
// befalls r. One that was told of its revocation has heard its last.
func (r *record) stateAfter(old *record) *state {
	if old != nil && !r.barred() && old.has(r.hash) && !old.principal.Revoked() {
		return old.principal.state
	}
	s := new(state)
	s.revoked.Store(r.revoked)
	return s
}

// load is the layout's, with a panic logged where its stack is known. The cache
// turns it into an error for all who wait.
func (v *Verifier) load(ctx context.Context, k cacheKey) (*record, error) {
	defer func() {
		if p := recover(); p != nil {
			v.log.ErrorContext(ctx, "panic in a look-up", "app", k.app, "token_id", k.id, "panic", fmt.Sprint(p), "stack", stack())
			panic(p)
		}
	}()
	return v.layout.load(ctx, k)
}

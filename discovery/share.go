package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// resolvePause is the least time between two hints that a shared resolver is
// given: with thousands of connections, an endpoint that fails makes thousands
// of them.
const resolvePause = time.Second

// Share returns a builder whose ClientConns share one resolver of inner for
// each target: however many there are, its source has one watcher. The resolver
// starts with the first of them and stops when the last is closed. Whoever
// comes later is told the last state at once.
//
// The ClientConns must be made with the same options: what inner reads of them
// is that of the first.
func Share(inner resolver.Builder) resolver.Builder {
	b := &sharedBuilder{inner: inner, byTarget: make(map[string]*shared)}
	if authority, ok := inner.(resolver.AuthorityOverrider); ok {
		return struct {
			resolver.Builder
			resolver.AuthorityOverrider
		}{b, authority}
	}
	return b
}

type sharedBuilder struct {
	inner resolver.Builder

	mu       sync.Mutex
	byTarget map[string]*shared
}

func (b *sharedBuilder) Scheme() string { return b.inner.Scheme() }

func (b *sharedBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	s := b.join(target.URL.String())
	s.enter(cc)
	s.build.Do(func() { s.resolver, s.err = b.inner.Build(target, s, opts) })
	if s.err != nil {
		s.exit(cc)
		b.leave(s)
		return nil, s.err
	}
	return startSharer(b, s, cc), nil
}

// join returns what the users of a target share. leave must follow.
func (b *sharedBuilder) join(target string) *shared {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.byTarget[target]
	if s == nil {
		s = &shared{target: target, news: newLatest[news](), users: make(map[resolver.ClientConn]int)}
		b.byTarget[target] = s
	}
	s.joined++
	return s
}

// leave closes the inner resolver when nobody uses it any more. One that could
// not be built is forgotten at once, so that the next user tries anew.
func (b *sharedBuilder) leave(s *shared) {
	b.mu.Lock()
	s.joined--
	last := s.joined == 0
	if (last || s.err != nil) && b.byTarget[s.target] == s {
		delete(b.byTarget, s.target)
	}
	b.mu.Unlock()
	if last && s.resolver != nil {
		s.stopHints()
		s.resolver.Close()
	}
}

// shared is one inner resolver, and to it the ClientConn.
type shared struct {
	target string
	joined int // guarded by sharedBuilder.mu

	build    sync.Once
	resolver resolver.Resolver
	err      error

	news *latest[news]

	mu     sync.Mutex
	users  map[resolver.ClientConn]int
	hinted time.Time   // when the inner resolver was last given a hint
	hint   *time.Timer // the next one; nil: none is due
	closed bool
}

// news is what an inner resolver told last, and how often it told anything.
type news struct {
	states, errors int
	state          resolver.State
	err            error // what it reported since the state
}

// enter and exit note who can parse a service config.
func (s *shared) enter(cc resolver.ClientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[cc]++
}

func (s *shared) exit(cc resolver.ClientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[cc]--; s.users[cc] == 0 {
		delete(s.users, cc)
	}
}

// UpdateState never blocks. Its error is for resolvers that look again soon
// when there is nothing to call.
func (s *shared) UpdateState(state resolver.State) error {
	s.news.change(func(n news) news {
		n.states++
		n.state, n.err = state, nil
		return n
	})
	if len(state.Endpoints) == 0 && len(state.Addresses) == 0 {
		return errors.New("no endpoints")
	}
	return nil
}

// ReportError is passed on beside the state, which stays.
func (s *shared) ReportError(err error) {
	s.news.change(func(n news) news {
		n.errors++
		n.err = err
		return n
	})
}

// NewAddress is of gRPC's old interface.
func (s *shared) NewAddress(addresses []resolver.Address) {
	_ = s.UpdateState(resolver.State{Addresses: addresses})
}

// ParseServiceConfig parses as any of the users does; nil without one, which
// means that there is no service config.
func (s *shared) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cc := range s.users {
		return cc.ParseServiceConfig(text)
	}
	return nil
}

// resolveNow passes one hint on, for all that come within the pause.
func (s *shared) resolveNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.hint != nil {
		return
	}
	s.hint = time.AfterFunc(max(0, time.Until(s.hinted.Add(resolvePause))), s.passHint)
}

func (s *shared) passHint() {
	s.mu.Lock()
	closed := s.closed
	s.hint, s.hinted = nil, time.Now()
	s.mu.Unlock()
	if !closed {
		s.resolver.ResolveNow(resolver.ResolveNowOptions{})
	}
}

func (s *shared) stopHints() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.hint != nil {
		s.hint.Stop()
	}
}

// sharer hands what is shared to one ClientConn. It has a goroutine of its own,
// so that a ClientConn that is slow to take an update delays no other.
type sharer struct {
	builder *sharedBuilder
	shared  *shared
	cc      resolver.ClientConn
	cancel  context.CancelFunc
	done    chan struct{}
}

func startSharer(b *sharedBuilder, s *shared, cc resolver.ClientConn) *sharer {
	ctx, cancel := context.WithCancel(context.Background())
	r := &sharer{builder: b, shared: s, cc: cc, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

func (r *sharer) run(ctx context.Context) {
	var told news
	for ctx.Err() == nil {
		n, next := r.shared.news.get()
		if n.states != told.states {
			_ = r.cc.UpdateState(n.state) // an error is the balancer's: resolving again would not change it
		}
		if n.err != nil && n.errors != told.errors {
			r.cc.ReportError(n.err)
		}
		told = n
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}

// ResolveNow is a hint of this ClientConn that an endpoint failed.
func (r *sharer) ResolveNow(resolver.ResolveNowOptions) { r.shared.resolveNow() }

func (r *sharer) Close() {
	r.cancel()
	<-r.done
	r.shared.exit(r.cc)
	r.builder.leave(r.shared)
}

package discovery

import (
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
	r := &sharer{builder: b, shared: s, cc: cc}
	s.enter(r)
	s.build.Do(func() { s.resolver, s.err = b.inner.Build(target, s, opts) })
	if s.err != nil {
		s.exit(r)
		b.leave(s)
		return nil, s.err
	}
	r.start()
	return r, nil
}

// join returns what the users of a target share. leave must follow.
func (b *sharedBuilder) join(target string) *shared {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.byTarget[target]
	if s == nil {
		s = &shared{target: target, users: make(map[*sharer]struct{})}
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

	mu     sync.Mutex
	users  map[*sharer]struct{}
	news   news
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

// enter and exit note who is told of news, and can parse a service config.
func (s *shared) enter(r *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[r] = struct{}{}
}

func (s *shared) exit(r *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.users, r)
}

// change makes the news others, and has everybody told.
func (s *shared) change(f func(*news)) {
	s.mu.Lock()
	f(&s.news)
	users := make([]*sharer, 0, len(s.users))
	for r := range s.users {
		users = append(users, r)
	}
	s.mu.Unlock()
	for _, r := range users {
		r.wake()
	}
}

func (s *shared) latest() news {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

// UpdateState never blocks. Its error is for resolvers that look again soon
// when there is nothing to call.
func (s *shared) UpdateState(state resolver.State) error {
	s.change(func(n *news) {
		n.states++
		n.state, n.err = state, nil
	})
	if len(state.Endpoints) == 0 && len(state.Addresses) == 0 {
		return errors.New("no endpoints")
	}
	return nil
}

// ReportError is passed on beside the state, which stays.
func (s *shared) ReportError(err error) {
	s.change(func(n *news) {
		n.errors++
		n.err = err
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
	for r := range s.users {
		return r.cc.ParseServiceConfig(text)
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

// sharer hands what is shared to one ClientConn. It does so in a goroutine of its
// own, so that a ClientConn that is slow to take an update delays no other; there
// is one only while there is news, since there may be thousands of ClientConns.
type sharer struct {
	builder *sharedBuilder
	shared  *shared
	cc      resolver.ClientConn

	mu      sync.Mutex
	started bool
	closed  bool
	telling bool          // the goroutine runs
	again   bool          // there may be news that it has not seen
	done    chan struct{} // closed when it has ended after closed was set

	told struct{ states, errors int } // what the ClientConn knows; the goroutine's
}

// start has the ClientConn told from now on.
func (r *sharer) start() {
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	r.wake()
}

// wake has the ClientConn told of news, if there are any. It never blocks.
func (r *sharer) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = true
	if r.started && !r.closed && !r.telling {
		r.telling = true
		go r.tell()
	}
}

// tell runs until there is nothing new.
func (r *sharer) tell() {
	for r.next() {
		n := r.shared.latest()
		if n.states != r.told.states {
			_ = r.cc.UpdateState(n.state) // an error is the balancer's: resolving again would not change it
		}
		if n.err != nil && n.errors != r.told.errors {
			r.cc.ReportError(n.err)
		}
		r.told.states, r.told.errors = n.states, n.errors
	}
}

// next tells whether there may be news, and ends the telling if not.
func (r *sharer) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again && !r.closed {
		r.again = false
		return true
	}
	r.telling = false
	if r.done != nil {
		close(r.done)
	}
	return false
}

// ResolveNow is a hint of this ClientConn that an endpoint failed.
func (r *sharer) ResolveNow(resolver.ResolveNowOptions) { r.shared.resolveNow() }

// Close waits until the ClientConn is not told any more.
func (r *sharer) Close() {
	r.mu.Lock()
	r.closed = true
	var done chan struct{}
	if r.telling {
		done = make(chan struct{})
		r.done = done
	}
	r.mu.Unlock()
	if done != nil {
		<-done
	}
	r.shared.exit(r)
	r.builder.leave(r.shared)
}

package discovery

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"
)

// fakeBuilder builds resolvers that a test speaks for.
type fakeBuilder struct {
	mu    sync.Mutex
	built []*fakeResolver
	fail  error
}

type fakeResolver struct {
	cc resolver.ClientConn

	mu     sync.Mutex
	hints  int
	closed int
}

func (*fakeBuilder) Scheme() string { return "fake" }

func (b *fakeBuilder) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return nil, b.fail
	}
	r := &fakeResolver{cc: cc}
	b.built = append(b.built, r)
	return r, nil
}

func (b *fakeBuilder) all() []*fakeResolver {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.built
}

func (r *fakeResolver) ResolveNow(resolver.ResolveNowOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hints++
}

func (r *fakeResolver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
}

func (r *fakeResolver) counts() (hints, closed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hints, r.closed
}

func stateFor(list ...string) resolver.State {
	var endpoints []endpoint
	for _, a := range list {
		endpoints = append(endpoints, endpoint{address: a})
	}
	return stateOf(endpoints)
}

func TestShareHasOneResolverForATarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := new(fakeBuilder)
		b := Share(inner)
		const users = 10_000
		ccs, rs := make([]*fakeConn, users), make([]resolver.Resolver, users)
		for i := range users / 2 {
			ccs[i], rs[i] = resolve(t, b, "fake:///a")
		}
		_ = inner.all()[0].cc.UpdateState(stateFor("a:1"))
		synctest.Wait()
		for i := users / 2; i < users; i++ { // who comes later is told at once
			ccs[i], rs[i] = resolve(t, b, "fake:///a")
		}
		other, r := resolve(t, b, "fake:///b")
		defer r.Close()
		synctest.Wait()
		for _, cc := range ccs {
			expect(t, cc, "a:1")
		}
		expect(t, other, "")
		if n := len(inner.all()); n != 2 {
			t.Fatalf("%d resolvers for two targets", n)
		}
		inner.all()[0].cc.ReportError(errors.New("away"))
		synctest.Wait()
		for _, cc := range ccs {
			expect(t, cc, "error: away")
			if n := len(cc.told); n != 2 {
				t.Fatalf("a ClientConn was told %q", cc.told)
			}
		}
		for _, r := range rs[1:] {
			r.Close()
		}
		if _, closed := inner.all()[0].counts(); closed != 0 {
			t.Error("closed with one user left")
		}
		rs[0].Close()
		if _, closed := inner.all()[0].counts(); closed != 1 {
			t.Errorf("closed %d times", closed)
		}
		cc, r2 := resolve(t, b, "fake:///a")
		defer r2.Close()
		expect(t, cc, "") // the state of a resolver that is gone is not told
		if n := len(inner.all()); n != 3 {
			t.Errorf("%d resolvers after the first was closed", n)
		}
	})
}

func TestShareBoundsHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := new(fakeBuilder)
		b := Share(inner)
		_, one := resolve(t, b, "fake:///a")
		_, two := resolve(t, b, "fake:///a")
		one.ResolveNow(resolver.ResolveNowOptions{})
		synctest.Wait()
		if hints, _ := inner.all()[0].counts(); hints != 1 {
			t.Fatalf("%d hints at once, want 1", hints)
		}
		for range 1000 {
			one.ResolveNow(resolver.ResolveNowOptions{})
			two.ResolveNow(resolver.ResolveNowOptions{})
			pass(10 * time.Millisecond)
		}
		if hints, _ := inner.all()[0].counts(); hints < 10 || hints > 11 {
			t.Errorf("%d hints in 10 s", hints)
		}
		two.ResolveNow(resolver.ResolveNowOptions{})
		one.Close()
		two.Close()
		hints, _ := inner.all()[0].counts()
		pass(time.Minute)
		if after, _ := inner.all()[0].counts(); after != hints {
			t.Error("a hint after the end")
		}
	})
}

func TestShareForgetsWhatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	inner := &fakeBuilder{fail: errors.New("no such thing")}
	b := Share(inner)
	if _, err := b.Build(parseTarget(t, "fake:///a"), new(fakeConn), resolver.BuildOptions{}); !errors.Is(err, inner.fail) {
		t.Fatalf("error %v", err)
	}
	inner.fail = nil
	_, r := resolve(t, b, "fake:///a")
	r.Close()
}

// Fixed addresses are told while their resolver is built.
func TestShareOfStatic(t *testing.T) {
	t.Parallel()
	b := Share(StaticBuilder())
	target := StaticTarget([]string{"a:1", "b:1"})
	for range 2 {
		cc, r := resolve(t, b, target)
		eventuallyTold(t, cc, "a:1 b:1")
		defer r.Close()
	}
	authority, ok := b.(resolver.AuthorityOverrider)
	if !ok || authority.OverrideAuthority(parseTarget(t, target)) != "a:1" {
		t.Error("the authority of the inner resolver is lost")
	}
}

// Users that come and go, and a resolver that tells all the time, meet no race;
// who stays is told the last state.
func TestShareRaces(t *testing.T) {
	t.Parallel()
	inner := new(fakeBuilder)
	b := Share(inner)
	stays, r := resolve(t, b, "fake:///a")
	defer r.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				_, r := resolve(t, b, "fake:///a")
				r.ResolveNow(resolver.ResolveNowOptions{})
				r.Close()
			}
		})
		all.Go(func() {
			for range 100 {
				_, r := resolve(t, b, "fake:///b") // comes to life and dies all the time
				r.Close()
			}
		})
	}
	all.Go(func() {
		for range 500 {
			_ = inner.all()[0].cc.UpdateState(stateFor("a:1"))
			inner.all()[0].cc.ReportError(errors.New("away"))
		}
		_ = inner.all()[0].cc.UpdateState(stateFor("b:1"))
	})
	all.Wait()
	eventuallyTold(t, stays, "b:1")
	for _, r := range inner.all()[1:] {
		if _, closed := r.counts(); closed != 1 {
			t.Fatalf("a resolver was closed %d times", closed)
		}
	}
}

func TestFollowNeedsNoConnection(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	stop, err := Follow(StaticTarget([]string{"a:1", "b:1"}), []resolver.Builder{Share(StaticBuilder())}, func(s resolver.State, _ error) {
		var all []string
		for _, e := range s.Endpoints {
			all = append(all, e.Addresses[0].Addr)
		}
		told <- strings.Join(all, " ")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got := <-told; got != "a:1 b:1" {
		t.Errorf("told %q", got)
	}
	if _, err := Follow("nowhere:///x%zz", nil, nil); err == nil {
		t.Error("no error for a target that no URL is")
	}
}

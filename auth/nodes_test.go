package auth

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/credcache"
)

// byPush is a configuration whose cache asks nothing again by itself.
func byPush(name string) config.Auth {
	return config.Auth{Node: name, Cache: config.CredentialCache{TTL: time.Hour, NegativeTTL: time.Hour}}
}

// ask asks all gateways of a server.
func ask(t *testing.T, s *redisServer, q Question) (verdicts map[string]Verdict, cached map[string]bool, missing []string) {
	t.Helper()
	answers, missing, err := AskNodes(t.Context(), s.client(), tenant.KeysOf(config.Auth{}), q)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, cached = map[string]Verdict{}, map[string]bool{}
	for _, a := range answers {
		verdicts[a.Node], cached[a.Node] = a.Verdict, a.Cached
	}
	return verdicts, cached, missing
}

func question(t *testing.T, c Credential) Question {
	t.Helper()
	q, err := NewQuestion(config.Auth{}, c, "")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func awaitNodes(t *testing.T, n int, gateways ...*gateway) {
	t.Helper()
	for _, g := range gateways {
		eventually(t, "the sight of all nodes", func() bool { return g.node.count.Load() == int64(n) })
	}
}

func TestNodesSeeEachOther(t *testing.T) {
	server := startRedis(t)
	one := startGateway(t, server.client(), config.Auth{})
	awaitNodes(t, 1, one)
	if one.Node() == "" || !strings.Contains(one.Node(), "-") {
		t.Errorf("its name is %q", one.Node())
	}
	two := newGateway(t, server.client(), config.Auth{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- two.Run(ctx) }()
	awaitNodes(t, 2, one, two)
	if one.Node() == two.Node() {
		t.Errorf("both are called %q", one.Node())
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	awaitNodes(t, 1, one)
	unseen := newGateway(t, server.client(), config.Auth{})
	if n := unseen.Nodes(); n != 1 {
		t.Errorf("a gateway that has seen nobody counts %d", n)
	}
}

// A node that takes no leave is gone after a while.
func TestDeadNodesExpire(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	keys := tenant.KeysOf(config.Auth{})
	g := startGateway(t, server.client(), config.Auth{})
	awaitNodes(t, 1, g)
	if err := rdb.Do(t.Context(), "ZADD", keys.Nodes(), time.Now().Add(-nodeLife+time.Second).UnixMilli(), "dead").Err(); err != nil {
		t.Fatal(err)
	}
	running, err := runningNodes(t.Context(), rdb, keys)
	if err != nil || !slices.Contains(running, "dead") || len(running) != 2 {
		t.Fatalf("running are %q, %v", running, err)
	}
	eventually(t, "the end of the dead node", func() bool {
		n, err := rdb.ZCard(t.Context(), keys.Nodes()).Result()
		return err == nil && n == 1
	})
}

func TestEachNodeAnswersAsItWouldACall(t *testing.T) {
	server := startRedis(t)
	s := tenant.NewStore(server.client(), config.Auth{})
	ctx := t.Context()
	var gateways []*gateway
	for _, name := range []string{"a", "b", "c"} {
		g := startGateway(t, server.client(), byPush(name))
		g.hearing(t)
		gateways = append(gateways, g)
	}
	awaitNodes(t, 3, gateways...)
	eventually(t, "all to hear questions", func() bool {
		n, err := server.client().PubSubNumSub(ctx, "rpcgate:questions").Result()
		return err == nil && n["rpcgate:questions"] == 3
	})
	all := func(v Verdict) map[string]Verdict { return map[string]Verdict{"a": v, "b": v, "c": v} }
	want := func(what string, q Question, verdicts map[string]Verdict) map[string]bool {
		t.Helper()
		got, cached, missing := ask(t, server, q)
		if len(got) != len(verdicts) || len(missing) > 0 {
			t.Fatalf("%s: answers %v, missing %q", what, got, missing)
		}
		for node, v := range verdicts {
			if got[node] != v {
				t.Errorf("%s: %s says %s, want %s", what, node, got[node], v)
			}
		}
		return cached
	}

	token := issue(t, s, "acme")
	gateways[0].verify(t, credential(token), nil)
	if cached := want("a good token", question(t, credential(token)), all(VerdictValid)); !cached["a"] || cached["b"] || cached["c"] {
		t.Errorf("from memory: %v; want a alone", cached)
	}
	if cached := want("once more", question(t, credential(token)), all(VerdictValid)); !cached["a"] || !cached["b"] || !cached["c"] {
		t.Errorf("from memory: %v; want all", cached)
	}
	want("by its id", Question{App: "acme", TokenID: token.ID}, all(VerdictValid))
	wrong := question(t, credential(token))
	wrong.Hash[0]++
	want("a wrong secret", wrong, all(VerdictUnknown))
	want("another app", Question{App: "other", TokenID: token.ID}, all(VerdictUnknown))
	want("a hash that is none", Question{App: "acme", TokenID: token.ID, Hash: []byte("x")}, all(VerdictUnknown))

	if err := s.Revoke(ctx, "acme", token.ID); err != nil {
		t.Fatal(err)
	}
	within(t, soon, "the revocation, everywhere", func() bool {
		got, _, missing := ask(t, server, question(t, credential(token)))
		return len(missing) == 0 && got["a"] == VerdictRevoked && got["b"] == VerdictRevoked && got["c"] == VerdictRevoked
	})
}

// A gateway that runs and does not answer is named.
func TestSilentNodesAreMissing(t *testing.T) {
	server := startRedis(t)
	keys := tenant.KeysOf(config.Auth{})
	g := startGateway(t, server.client(), byPush("alive"))
	awaitNodes(t, 1, g)
	start := time.Now()
	eventually(t, "an answer", func() bool {
		start = time.Now()
		for name, at := range map[string]time.Time{"silent": start, "before the clock was put back": start.Add(time.Hour)} {
			if err := server.client().Do(t.Context(), "ZADD", keys.Nodes(), at.UnixMilli(), name).Err(); err != nil {
				t.Fatal(err)
			}
		}
		got, _, missing := ask(t, server, Question{App: "acme", TokenID: strings.Repeat("a", 16)})
		return got["alive"] == VerdictUnknown && slices.Equal(missing, []string{"silent"})
	})
	if took := time.Since(start); took < askTimeout || took > askTimeout+soon {
		t.Errorf("it was waited for %v", took)
	}
}

// due is a context whose time is up, which it has not noticed yet.
type due struct{ context.Context }

func (due) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// The end of the time for answers is no failure, whoever notices it first.
func TestAnswersInTheLastMoment(t *testing.T) {
	server := startRedis(t)
	if answers, err := collectAnswers(due{t.Context()}, server.client(), "rpcgate:answers:x", []string{"silent"}); err != nil || len(answers) > 0 {
		t.Errorf("answers %v, %v", answers, err)
	}
}

func TestNobodyIsWaitedForWhereNobodyRuns(t *testing.T) {
	server := startRedis(t)
	start := time.Now()
	got, _, missing := ask(t, server, Question{App: "acme"})
	if len(got) > 0 || len(missing) > 0 || time.Since(start) > soon {
		t.Errorf("answers %v, missing %q after %v", got, missing, time.Since(start))
	}
}

// What comes over the channel of questions and is none does no harm, and writes
// nothing.
func TestBadQuestions(t *testing.T) {
	server := startRedis(t)
	rdb := server.client()
	g := startGateway(t, server.client(), byPush("a"))
	awaitNodes(t, 1, g)
	eventually(t, "the subscription", func() bool {
		n, err := rdb.Publish(t.Context(), "rpcgate:questions", "{").Result()
		return err == nil && n == 1
	})
	for _, text := range []string{
		"", "null", `{"nonce":"x","app":"acme"}`, `{"nonce":"../../../../etc/passwd","app":"acme"}`,
		`{"nonce":"abcdefghijklmnopqrstuvwxyz","app":"ac me"}`, `{"nonce":"abcdefghijklmnopqrstuvwxyz","app":"{acme}"}`,
	} {
		if err := rdb.Publish(t.Context(), "rpcgate:questions", text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "an answer to what is a question", func() bool {
		got, _, _ := ask(t, server, Question{App: "acme", TokenID: strings.Repeat("a", 16)})
		return got["a"] == VerdictUnknown
	})
	for _, id := range []string{strings.Repeat("a", 1<<20), "a:b", "*"} {
		if got, _, _ := ask(t, server, Question{App: "acme", TokenID: id}); got["a"] != VerdictUnknown {
			t.Errorf("an id that is none: %v", got)
		}
	}
	if _, memory := g.cache.Recall(cacheKey{"acme", "a:b"}); memory != credcache.Unknown {
		t.Errorf("an id that is none is remembered: %v", memory)
	}
	keys, err := rdb.Keys(t.Context(), "*answers*").Result()
	if err != nil || len(keys) > 4 {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// The demo's store is miniredis.
func TestNodesOverMiniredis(t *testing.T) {
	rdb := open(t, config.Redis{Addresses: []string{miniredis.RunT(t).Addr()}})
	token := issue(t, tenant.NewStore(rdb, config.Auth{}), "acme")
	g := startGateway(t, rdb, byPush("demo"))
	g.verify(t, credential(token), nil)
	eventually(t, "a sign of life", func() bool { return g.node.count.Load() == 1 })
	eventually(t, "an answer", func() bool {
		answers, missing, err := AskNodes(t.Context(), rdb, tenant.KeysOf(config.Auth{}), question(t, credential(token)))
		return err == nil && len(missing) == 0 && len(answers) == 1 && answers[0].Verdict == VerdictValid
	})
	if err := g.writeUses(t.Context(), limit); err != nil {
		t.Error(err)
	}
}

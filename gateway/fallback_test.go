package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// askingPeer is a caller who sends one message and keeps what it is answered.
type askingPeer struct {
	silentPeer

	request         string
	header, trailer metadata.MD
	headers         int
	noted           metadata.MD
	messages        []string
}

func (p *askingPeer) recvMsg() (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(p.request)}, nil
}

func (p *askingPeer) sendHeader(md metadata.MD) error {
	p.header = md
	p.headers++
	return nil
}

func (p *askingPeer) sendMsg(msg mem.BufferSlice) error {
	p.messages = append(p.messages, string(msg.Materialize()))
	msg.Free()
	return nil
}

func (p *askingPeer) setTrailer(md metadata.MD) { p.trailer = md }

func (p *askingPeer) note(md metadata.MD) { p.noted = md }

// backendThat answers each call with its request and what it is called, or fails
// as fails says.
type backendThat struct {
	name     string
	fails    error
	attempts int
	calls    int
	failed   bool // by the route's outcome
}

func (b *backendThat) Forward(_ context.Context, r *rpcproxy.Request, ex rpcproxy.Exchange) error {
	b.calls++
	msg, err := ex.RecvMsg()
	if err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	defer msg.Free()
	*r.Served = rpcproxy.Served{Attempts: b.attempts, Endpoint: b.name + ":1", Failed: b.failed}
	if b.fails != nil {
		if answered, ok := errors.AsType[*rpcproxy.StatusError](b.fails); ok {
			_ = ex.SendHeader(metadata.MD{"by": {b.name}})
			ex.SetTrailer(metadata.MD{"end": {b.name}})
			return answered
		}
		return b.fails
	}
	if err := ex.SendHeader(metadata.MD{"by": {b.name}, keyEndpoint: {"forged"}}); err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	if err := ex.SendMsg(mem.BufferSlice{mem.SliceBuffer(b.name + " says " + string(msg.Materialize()))}); err != nil {
		return &rpcproxy.ExchangeError{Err: err}
	}
	ex.SetTrailer(metadata.MD{"end": {b.name}, "x-rpcgate-attempts": {"forged"}})
	return nil
}

func answered(code codes.Code) error {
	return &rpcproxy.StatusError{Status: status.New(code, "said so")}
}

func TestFallbackAnswers(t *testing.T) {
	t.Parallel()
	unreachable := &rpcproxy.UnreachableError{Backend: "main", Cause: errors.New("down")}
	for name, tc := range map[string]struct {
		fails      error
		idempotent bool
		key        bool // has an Idempotency-Key
		static     bool // else another backend
		stands     bool
	}{
		"static, unreachable":                {fails: unreachable, static: true, stands: true},
		"static, breaker":                    {fails: &rpcproxy.BreakerOpenError{}, static: true, stands: true},
		"static, timeout":                    {fails: &rpcproxy.TimeoutError{}, static: true, stands: true},
		"static, the backend says so":        {fails: answered(codes.Unavailable), static: true, stands: true},
		"static, another code":               {fails: answered(codes.Internal), static: true},
		"static, the caller's message":       {fails: &rpcproxy.ExchangeError{Err: errBodyTimeout}, static: true},
		"static, too large for the backend":  {fails: &rpcproxy.LocalError{Status: status.New(codes.ResourceExhausted, "trying to send message larger than max")}, static: true},
		"static, the backend takes no such":  {fails: answered2(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 4)"), static: true},
		"static, no connection":              {fails: &rpcproxy.LocalError{Status: status.New(codes.ResourceExhausted, ""), Cause: rpcproxy.ErrPoolFull}, static: true, stands: true},
		"static, the gateway stops":          {fails: &rpcproxy.LocalError{Status: status.New(codes.Unavailable, ""), Cause: rpcproxy.ErrClosed}, static: true},
		"static, busy":                       {fails: &rpcproxy.BusyError{}, static: true, stands: true},
		"backend, busy":                      {fails: &rpcproxy.BusyError{}, stands: true},
		"static, well":                       {static: true},
		"backend, unreachable":               {fails: unreachable, stands: true},
		"backend, lost on the way":           {fails: &rpcproxy.UnreachableError{Sent: true}},
		"backend, lost on the way, repeated": {fails: &rpcproxy.UnreachableError{Sent: true}, idempotent: true, stands: true},
		"backend, lost on the way, by a key": {fails: &rpcproxy.UnreachableError{Sent: true}, key: true},
		"backend, unreachable, by a key":     {fails: unreachable, key: true, stands: true},
		"backend, timeout":                   {fails: &rpcproxy.TimeoutError{}},
		"backend, not sent in time":          {fails: &rpcproxy.TimeoutError{Unsent: true}, stands: true},
		"backend, timeout, repeated":         {fails: &rpcproxy.TimeoutError{}, idempotent: true, stands: true},
		"backend, breaker":                   {fails: &rpcproxy.BreakerOpenError{}, stands: true},
		"backend, the other one says so":     {fails: answered(codes.Unavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := config.Fallback{Backend: "spare"}
			if tc.static {
				rule = config.Fallback{Response: `{"text": "static"}`}
			}
			r := fallbackRoute(t, withCodes(rule, "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"))
			r.Idempotent, r.IdempotencyKey = tc.idempotent, tc.key
			g, text, reg := newTestGateway(verifyFunc(valid))
			g.cfg.CallInfo = "endpoint"
			main, spare := &backendThat{name: "main", fails: tc.fails, attempts: 2}, &backendThat{name: "spare", attempts: 1}
			f := &fallback{main: g.newOutbound(r, main, newKeptOver(nil).filters), rule: r.Fallback}
			if !tc.static {
				f.spare = g.newOutbound(r, spare, newKeptOver(nil).filters)
			}
			p := &askingPeer{request: "hello"}
			c := newTestCall(r, p)
			c.Metadata = metadata.MD{keyIdempotency: {"k"}}
			err := g.pipeline(r, f.handle)(t.Context(), c)
			counted := counterSum(t, reg, "rpcgate_fallbacks_total")
			if !tc.stands {
				checkNotStandingIn(t, p, spare, err, tc.fails, counted)
				return
			}
			if err != nil || len(p.messages) != 1 || p.headers != 1 || counted != 1 {
				t.Fatalf("%v, messages %q, %d headers, counted %v", err, p.messages, p.headers, counted)
			}
			want, kind, attempts := "\n\x06static", "static", "2"
			if !tc.static {
				want, kind, attempts = "spare says hello", "backend", "3"
			}
			if p.messages[0] != want || fmt.Sprint(p.header[keyFallback]) != "["+kind+"]" || fmt.Sprint(p.header[keyAttempts]) != "["+attempts+"]" {
				t.Errorf("message %q, header %v", p.messages[0], p.header)
			}
			if by := fmt.Sprint(p.header["by"]); by == "[main]" || tc.static && len(p.trailer) > 0 {
				t.Errorf("the failed answer's metadata: header %v, trailer %v", p.header, p.trailer)
			}
			if !containsFold(text.String(), `"fallback":"`+kind+`"`) {
				t.Errorf("the log does not tell: %s", text)
			}
		})
	}
}

func checkNotStandingIn(t *testing.T, p *askingPeer, spare *backendThat, err, fails error, counted float64) {
	t.Helper()
	if (err == nil) != (fails == nil) || counted != 0 || spare.calls != 0 {
		t.Fatalf("%v, counted %v, %d calls to the spare backend", err, counted, spare.calls)
	}
	if fails == nil {
		if len(p.messages) != 1 || p.messages[0] != "main says hello" || shownMD(p.trailer) != "map[end:[main]]" || fmt.Sprint(p.header[keyEndpoint]) != "[main:1]" {
			t.Errorf("messages %q, header %v, trailer %v", p.messages, p.header, p.trailer)
		}
		return
	}
	// A backend's failure goes through as it came; others say how they went.
	if _, ok := errors.AsType[*rpcproxy.StatusError](fails); ok {
		if p.headers != 1 || fmt.Sprint(p.header["by"]) != "[main]" || shownMD(p.trailer) != "map[end:[main]]" {
			t.Errorf("header %v, trailer %v", p.header, p.trailer)
		}
	} else if p.headers != 0 || fmt.Sprint(p.noted[keyAttempts]) != "[2]" {
		t.Errorf("%d headers, noted %v", p.headers, p.noted)
	}
}

// Where both fail, the first one's failure is told.
func TestFallbackFailsToo(t *testing.T) {
	t.Parallel()
	r := fallbackRoute(t, withCodes(config.Fallback{Backend: "spare"}, "UNAVAILABLE"))
	g, _, reg := newTestGateway(verifyFunc(valid))
	g.cfg.CallInfo = "attempts"
	main := &backendThat{name: "main", fails: &rpcproxy.UnreachableError{Backend: "main", Cause: errors.New("down")}, attempts: 1}
	spare := &backendThat{name: "spare", fails: answered(codes.NotFound), attempts: 1}
	kept := newKeptOver(nil)
	f := &fallback{main: g.newOutbound(r, main, kept.filters), rule: r.Fallback, spare: g.newOutbound(r, spare, kept.filters)}
	p := &askingPeer{request: "hello"}
	err := g.pipeline(r, f.handle)(t.Context(), newTestCall(r, p))
	if failure := describe(err); failure == nil || failure.Reason != "BACKEND_UNREACHABLE" {
		t.Errorf("got %v", err)
	}
	if len(p.header) > 0 || shownMD(p.noted) != "map[x-rpcgate-attempts:[2]]" || counterSum(t, reg, "rpcgate_fallbacks_total") != 0 {
		t.Errorf("header %v, noted %v", p.header, p.noted)
	}
}

// No time is left for anybody who could answer.
func TestFallbackWithoutTime(t *testing.T) {
	t.Parallel()
	r := fallbackRoute(t, withCodes(config.Fallback{Response: "{}"}, "UNAVAILABLE"))
	g, _, _ := newTestGateway(verifyFunc(valid))
	ctx, cancel := context.WithCancel(t.Context())
	f := &fallback{main: g.newOutbound(r, forwardFunc(func(context.Context, *rpcproxy.Request, rpcproxy.Exchange) error {
		cancel()
		return &rpcproxy.UnreachableError{}
	}), newKeptOver(nil).filters), rule: r.Fallback}
	p := &askingPeer{}
	if err := g.pipeline(r, f.handle)(ctx, newTestCall(r, p)); err == nil || len(p.messages) > 0 {
		t.Errorf("%v, %q", err, p.messages)
	}
}

func TestLastGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := fallbackRoute(t, withCodes(config.Fallback{LastGood: &config.LastGood{MaxAge: time.Minute, Entries: 2, MaxSize: 64}}, "UNAVAILABLE"))
		g, _, _ := newTestGateway(verifyFunc(func(c auth.Credential) (*auth.Principal, error) {
			return &auth.Principal{App: c.App}, nil // as in zRPC's layout, where tokens have no id
		}))
		token := "first"
		kept := newKeptOver(nil)
		good, err := kept.lastGood(r, *r.Fallback.LastGood)
		if err != nil {
			t.Fatal(err)
		}
		main := &backendThat{name: "main"}
		f := &fallback{main: g.newOutbound(r, main, kept.filters), rule: r.Fallback, good: good}
		h := g.pipeline(r, f.handle)
		ask := func(app, request string, md metadata.MD) (*askingPeer, error) {
			p := &askingPeer{request: request}
			c := newTestCall(r, p)
			c.Credential, c.Metadata = auth.Credential{App: app, Token: token}, md
			return p, h(t.Context(), c)
		}
		must := func(p *askingPeer, err error) *askingPeer {
			t.Helper()
			if err != nil || len(p.messages) != 1 {
				t.Fatalf("%v, %q", err, p.messages)
			}
			return p
		}
		german := metadata.MD{"lang": {"de"}, keyRequestID: {"1"}, "traceparent": {"x"}}
		must(ask("acme", "a", german))
		main.failed = true // by the route's outcome: not good
		must(ask("acme", "b", nil))
		main.failed = false

		main.fails = &rpcproxy.UnreachableError{}
		time.Sleep(59 * time.Second)
		p := must(ask("acme", "a", metadata.MD{"lang": {"de"}, keyRequestID: {"2"}}))
		if p.messages[0] != "main says a" || shownMD(p.header) != "map[age:[59] x-rpcgate-fallback:[last-good]]" {
			t.Errorf("%q, header %v", p.messages, p.header)
		}
		for name, ask := range map[string]func() (*askingPeer, error){
			"another app":        func() (*askingPeer, error) { return ask("evil", "a", german) },
			"another request":    func() (*askingPeer, error) { return ask("acme", "aa", german) },
			"other metadata":     func() (*askingPeer, error) { return ask("acme", "a", metadata.MD{"lang": {"en"}}) },
			"metadata moved":     func() (*askingPeer, error) { return ask("acme", "a", metadata.MD{"langd": {"e"}}) },
			"a business failure": func() (*askingPeer, error) { return ask("acme", "b", nil) },
			"a token put in place of the one that asked": func() (*askingPeer, error) {
				token = "second"
				defer func() { token = "first" }()
				return ask("acme", "a", german)
			},
		} {
			if p, err := ask(); err == nil {
				t.Errorf("%s is answered %q", name, p.messages)
			}
		}
		time.Sleep(2 * time.Second)
		if p, err := ask("acme", "a", german); err == nil {
			t.Errorf("too old, and answered %q", p.messages)
		}

		// The next snapshot goes on with what is kept; a route with other bounds does not.
		main.fails = nil
		must(ask("acme", "a", german))
		next := newKeptOver(kept)
		if again, _ := next.lastGood(r, *r.Fallback.LastGood); again != good {
			t.Error("the next snapshot begins anew")
		}
		if other, _ := next.lastGood(r, config.LastGood{Entries: 3}); other == good {
			t.Error("another bound, and the same answers")
		}

		// As many as are allowed, none that is too large.
		for i := range 10 {
			must(ask("acme", fmt.Sprint(i), nil))
		}
		if n := good.cache.Len(); n != 2 {
			t.Errorf("%d answers are kept", n)
		}
		must(ask("acme", "9", nil))
		main.name = fmt.Sprintf("%065d", 1)
		must(ask("acme", "9", nil))
		if n := good.cache.Len(); n != 1 {
			t.Errorf("%d answers are kept after one that is too large to be", n)
		}
	})
}

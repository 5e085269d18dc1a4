package rpcproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
)

func TestRestrict(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		own, request, ctx time.Duration // 0: none
		reserve           time.Duration
		want              time.Duration // 0: no deadline
		byCaller          bool
	}{
		"none":                   {},
		"own":                    {own: 2 * time.Second, reserve: 5 * ms, want: 1995 * ms},
		"caller sooner":          {own: 2 * time.Second, request: time.Second, reserve: 5 * ms, want: 995 * ms, byCaller: true},
		"caller later":           {own: 2 * time.Second, request: time.Minute, reserve: 5 * ms, want: 1995 * ms},
		"caller alone":           {request: time.Minute, want: time.Minute, byCaller: true},
		"context sooner":         {own: 2 * time.Second, request: time.Second, ctx: 100 * ms, want: 100 * ms, byCaller: true},
		"a short budget":         {request: 4 * ms, reserve: 5 * ms, want: 3 * ms, byCaller: true},
		"a negative reserve":     {own: time.Second, reserve: -time.Second, want: time.Second},
		"reserve of the context": {ctx: time.Second, reserve: 100 * ms, want: 900 * ms, byCaller: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.ctx > 0 {
					limited, cancel := context.WithTimeout(ctx, tt.ctx)
					defer cancel()
					ctx = limited
				}
				r := &Request{Timeout: tt.own}
				if tt.request > 0 {
					r.Deadline = time.Now().Add(tt.request)
				}
				c := newCall(ctx, &Backend{}, &method{}, r, nil)
				var got time.Duration
				err := restrict(tt.reserve, func(ctx context.Context, _ *call) error {
					if deadline, ok := ctx.Deadline(); ok {
						got = time.Until(deadline)
					}
					return nil
				})(ctx, c)
				var whole time.Duration // the soonest, the reserve included
				for _, d := range []time.Duration{tt.own, tt.request, tt.ctx} {
					if d > 0 && (whole == 0 || d < whole) {
						whole = d
					}
				}
				if err != nil || got != tt.want || c.limit.timeout != whole || c.limit.byCaller != tt.byCaller {
					t.Errorf("got %v (limit %+v), %v; want %v, by caller %v", got, c.limit, err, tt.want, tt.byCaller)
				}
			})
		})
	}
	t.Run("passed", func(t *testing.T) {
		c := newCall(t.Context(), &Backend{}, &method{}, &Request{Deadline: time.Now().Add(-1)}, nil)
		err := restrict(0, func(context.Context, *call) error { t.Error("sent"); return nil })(t.Context(), c)
		var late *TimeoutError
		if !errors.As(err, &late) || !late.CallerDeadline || !late.Unsent {
			t.Errorf("%T %v, want a TimeoutError by the caller's deadline, with nothing sent", err, err)
		}
	})
}

func TestTimeoutText(t *testing.T) {
	sent := Lease{&entry{}}
	for name, tt := range map[string]struct {
		limit limit
		lease Lease
		want  string
	}{
		"own": {limit{timeout: 2 * time.Second}, sent,
			`backend "b" did not answer within 2s (the configured limit)`},
		"an odd limit": {limit{timeout: 1234567 * time.Microsecond}, sent,
			`backend "b" did not answer within 1.234567s (the configured limit)`},
		"caller": {limit{timeout: 1998765432, byCaller: true}, sent,
			`backend "b" did not answer within 2s (the caller's deadline)`},
		"a short deadline": {limit{timeout: 98765432, byCaller: true}, sent,
			`backend "b" did not answer within 99ms (the caller's deadline)`},
		"a very short deadline": {limit{timeout: 1234567, byCaller: true}, sent,
			`backend "b" did not answer within 1.23ms (the caller's deadline)`},
		"of an attempt": {limit{timeout: 300 * time.Millisecond, ofAttempt: true}, sent,
			`backend "b" did not answer within 300ms (the limit of one attempt)`},
		"unsent": {limit{byCaller: true}, Lease{},
			`backend "b" was not called: the caller's deadline passed before the call was sent`},
	} {
		t.Run(name, func(t *testing.T) {
			a := &newCall(t.Context(), &Backend{name: "b"}, nil, nil, nil).first
			a.lease, a.limit = tt.lease, tt.limit
			a.peer.Addr = &net.TCPAddr{}
			if got := a.timedOut().Error(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMethodLimit(t *testing.T) {
	cfg := config.DefaultBackend("b")
	cfg.Timeout, cfg.StreamTimeout = 2*time.Second, time.Hour
	cfg.MethodTimeouts = map[string]time.Duration{"p.S/Slow": time.Minute, "p.S/Endless": 0}
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	ms := newMethods(cfg, m, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		r    Request
		want time.Duration
	}{
		{Request{Method: "/p.S/M"}, 2 * time.Second},
		{Request{Method: "/p.S/M", ServerStreams: true}, time.Hour},
		{Request{Method: "/p.S/M", ClientStreams: true}, time.Hour},
		{Request{Method: "/p.S/M", Timeout: time.Second}, time.Second},
		{Request{Method: "/p.S/M", ServerStreams: true, Timeout: time.Second}, time.Second},
		{Request{Method: "/p.S/Slow"}, time.Minute},
		{Request{Method: "/p.S/Slow", ServerStreams: true}, time.Minute},
		{Request{Method: "/p.S/Slow", Timeout: time.Second}, time.Second},
		{Request{Method: "/p.S/Endless"}, 0},
	} {
		method, err := ms.get(tt.r.Method)
		if err != nil {
			t.Fatal(err)
		}
		if got := method.limit(&tt.r); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.r, got, tt.want)
		}
	}
}

func TestTimeout(t *testing.T) {
	budget := make(chan time.Duration, 1)
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		deadline, _ := ss.Context().Deadline()
		select {
		case budget <- time.Until(deadline):
		default:
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	})
	b := newBackend(t, s.addr, nil, Options{})
	_, release, err := b.AcquireShared(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	// Short limits are not for connecting.
	waitFor(t, "the connection", func() bool { ready, _ := b.pool.ready(); return ready })
	for _, r := range roads() {
		for name, byCaller := range map[string]bool{"own": false, "caller": true} {
			t.Run(road(r)+"/"+name, func(t *testing.T) {
				r := r
				if byCaller {
					r.Deadline = time.Now().Add(100 * time.Millisecond)
				} else {
					r.Timeout = 100 * time.Millisecond
				}
				err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
				select {
				case got := <-budget:
					if got > 100*time.Millisecond {
						t.Errorf("the backend was given %v", got)
					}
				default: // a busy machine: the time was up before the call arrived
				}
				var late *TimeoutError
				if !errors.As(err, &late) {
					// The backend's own DEADLINE_EXCEEDED may be sooner.
					var answered *StatusError
					if !errors.As(err, &answered) || answered.Status.Code() != codes.DeadlineExceeded {
						t.Fatalf("Forward: %T %v, want a TimeoutError", err, err)
					}
					return
				}
				if late.CallerDeadline != byCaller || late.Connecting || late.Limit <= 0 || late.Limit > 100*time.Millisecond {
					t.Errorf("%+v", late)
				}
			})
		}
	}
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		ex := &exchange{recv: func() (mem.BufferSlice, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}}
		err := b.Forward(ctx, &Request{Method: testMethod}, ex)
		var late *TimeoutError
		if !errors.As(err, &late) || !late.CallerDeadline {
			t.Errorf("Forward: %T %v, want a TimeoutError by the caller's deadline", err, err)
		}
	})
}

// Nobody answers to the attempt to connect.
func TestTimeoutWhileConnecting(t *testing.T) {
	s := serveRaw(t, func(*rawStream) {})
	b := newBackend(t, s.addr, nil, Options{dialOptions: []grpc.DialOption{
		grpc.WithContextDialer(blockingDialer),
	}})
	err := b.Forward(testContext(t), &Request{Method: testMethod, Timeout: 50 * time.Millisecond}, &exchange{requests: []string{"x"}})
	var late *TimeoutError
	if !errors.As(err, &late) || !late.Connecting || late.CallerDeadline {
		t.Errorf("Forward: %T %v, want a TimeoutError while connecting", err, err)
	}
}

// The first call after the connection was given up for idleness has as little
// time as any other. On a machine that is busy otherwise one of some tries
// must do.
func TestFirstCallAfterIdle(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, nil, Options{})
	call := func(budget time.Duration) error {
		r := &Request{Method: testMethod, Credential: app("a"), Deadline: time.Now().Add(budget)}
		return b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
	}
	if err := call(patience); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		before := s.conns()
		b.pool.mu.Lock()
		for e := range b.pool.liveLocked() {
			e.used.Add(-int64(31 * time.Minute))
		}
		b.pool.mu.Unlock()
		b.pool.expireIdle()
		if live, _ := b.pool.size(); live != 0 {
			t.Fatal("the connection is still there")
		}
		err := call(250 * time.Millisecond)
		if err == nil && s.conns() == before+1 {
			return
		}
		t.Logf("%v, %d new connections", err, s.conns()-before)
	}
	t.Error("no first call succeeded")
}

// What counts for the breaker, by who is to blame.
func TestOutcome(t *testing.T) {
	local := func(code codes.Code, cause error) error {
		return &LocalError{Status: status.New(code, ""), Cause: cause}
	}
	answered := func(code codes.Code) error { return &StatusError{Status: status.New(code, "")} }
	const ignored, success, failure, exhausted = 0, 1, 2, 3
	for name, tt := range map[string]struct {
		err      error
		byCaller bool
		request  Request
		header   metadata.MD
		unsent   bool
		want     int
	}{
		"ok":                            {want: success},
		"backend: not found":            {err: answered(codes.NotFound), want: success},
		"backend: unknown":              {err: answered(codes.Unknown), want: success},
		"backend: unauthenticated":      {err: answered(codes.Unauthenticated), want: success},
		"backend: internal":             {err: answered(codes.Internal), want: failure},
		"backend: unavailable":          {err: answered(codes.Unavailable), want: failure},
		"backend: data loss":            {err: answered(codes.DataLoss), want: failure},
		"backend: unimplemented":        {err: answered(codes.Unimplemented), want: failure},
		"backend: exhausted":            {err: answered(codes.ResourceExhausted), want: exhausted},
		"backend: deadline":             {err: answered(codes.DeadlineExceeded), want: failure},
		"backend: the caller's time up": {err: answered(codes.DeadlineExceeded), byCaller: true, want: ignored},
		"backend: cancelled":            {err: answered(codes.Canceled), want: ignored},
		"unreachable":                   {err: &UnreachableError{}, want: failure},
		"own limit":                     {err: &TimeoutError{}, want: failure},
		"the caller's deadline":         {err: &TimeoutError{CallerDeadline: true}, want: ignored},
		"own limit, silent stream":      {err: &TimeoutError{}, request: Request{ServerStreams: true}, want: failure},
		"own limit, stream with answer": {err: &TimeoutError{}, request: Request{ServerStreams: true}, header: metadata.MD{}, want: ignored},
		"own limit, caller still sends": {err: &TimeoutError{}, request: Request{ClientStreams: true}, want: ignored},
		"cancelled":                     {err: context.Canceled, want: ignored},
		"exchange":                      {err: &ExchangeError{Err: errExchange}, want: ignored},
		"exchange with a status":        {err: &ExchangeError{Err: status.Error(codes.Internal, "")}, want: ignored},
		"bad wire":                      {err: local(codes.Internal, nil), want: failure},
		"bad metadata":                  {err: local(codes.Internal, nil), unsent: true, want: ignored},
		"too large":                     {err: local(codes.ResourceExhausted, nil), want: ignored},
		"pool full":                     {err: local(codes.ResourceExhausted, ErrPoolFull), want: ignored},
		"drained":                       {err: local(codes.Unavailable, ErrDrained), want: ignored},
		"revoked":                       {err: local(codes.Unauthenticated, ErrRevoked), want: ignored},
	} {
		t.Run(name, func(t *testing.T) {
			a := &newCall(t.Context(), nil, nil, &tt.request, nil).first
			a.header, a.limit.byCaller = tt.header, tt.byCaller
			if !tt.unsent {
				a.peer.Addr = &net.TCPAddr{}
			}
			if got := a.outcome(tt.err); int(got) != tt.want {
				t.Errorf("outcome %d, want %d", got, tt.want)
			}
		})
	}
}

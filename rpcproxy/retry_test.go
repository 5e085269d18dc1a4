package rpcproxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/config"
)

// script answers each request as the next of its lines says, the last one over
// and over.
type script struct {
	mu    sync.Mutex
	lines []func(*rawStream)
	seen  int
}

func (s *script) answer(r *rawStream) {
	s.mu.Lock()
	line := s.lines[min(s.seen, len(s.lines)-1)]
	s.seen++
	s.mu.Unlock()
	line(r)
}

func (s *script) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func answerOK(s *rawStream) {
	s.begin()
	s.message(1)
	s.headers(true, "grpc-status", "0")
}

// statusOnly answers with a status without headers before it.
func statusOnly(code codes.Code, trailer ...string) func(*rawStream) {
	return func(s *rawStream) {
		s.headers(true, append([]string{":status", "200", "content-type", "application/grpc", "grpc-status", fmt.Sprint(uint32(code))}, trailer...)...)
	}
}

func statusBin(t *testing.T, s *status.Status, d *errdetails.RetryInfo) string {
	t.Helper()
	detailed, err := s.WithDetails(d)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(detailed.Proto())
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(data)
}

func loseConn(s *rawStream) { _ = s.conn.Close() }

func refuse(s *rawStream) { _ = s.framer.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) }

// readAll reads to the end of what the caller sends. What is refused before that
// grpc-go may send again by itself.
func (s *rawStream) readAll() {
	for {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			return
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
			return
		}
	}
}

func leaveOut(s *rawStream) {
	_ = s.framer.WriteGoAway(s.id-1, http2.ErrCodeNo, []byte("restart"))
}

func quick(c *config.Backend) {
	c.Breaker.Kind = "off"
	c.Retry.Backoff, c.Retry.MaxBackoff = time.Millisecond, time.Millisecond
}

// What happened × may it be repeated → how many attempts there are, on every
// road.
func TestRetry(t *testing.T) {
	exhausted := status.New(codes.ResourceExhausted, "")
	soon := statusBin(t, exhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	never := statusBin(t, exhausted, &errdetails.RetryInfo{RetryDelay: durationpb.New(-time.Millisecond)})
	allCodes := func(c *config.Backend) {
		c.Retry.Codes = []string{"UNAVAILABLE", "ABORTED", "INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
	}
	noCodes := func(c *config.Backend) { c.Retry.Codes = nil }
	one := func(c *config.Backend) { c.Retry.MaxAttempts = 1 }
	for name, tt := range map[string]struct {
		happens      func(*rawStream)
		change       func(*config.Backend)
		once, always int // attempts of a call that may not be repeated, and of one that may
		unary        int // of one that may, on the unary road; 0: as always
	}{
		"UNAVAILABLE":                          {statusOnly(codes.Unavailable), nil, 1, 2, 0},
		"UNAVAILABLE, no codes":                {statusOnly(codes.Unavailable), noCodes, 1, 1, 0},
		"UNAVAILABLE, one attempt":             {statusOnly(codes.Unavailable), one, 1, 1, 0},
		"INTERNAL":                             {statusOnly(codes.Internal), nil, 1, 1, 0},
		"INTERNAL, all codes":                  {statusOnly(codes.Internal), allCodes, 1, 2, 0},
		"INVALID_ARGUMENT, all codes":          {statusOnly(codes.InvalidArgument), allCodes, 1, 1, 0},
		"NOT_FOUND, all codes":                 {statusOnly(codes.NotFound), allCodes, 1, 1, 0},
		"CANCELLED, all codes":                 {statusOnly(codes.Canceled), allCodes, 1, 1, 0},
		"an unknown code, all codes":           {statusOnly(4711), allCodes, 1, 1, 0},
		"unreadable request, all codes":        {statusOnly(codes.Internal, "grpc-message", "grpc: failed to unmarshal the received message: x"), allCodes, 1, 1, 0},
		"push-back":                            {statusOnly(codes.Unavailable, pushbackKey, "1"), nil, 1, 2, 0},
		"push-back, now":                       {statusOnly(codes.Unavailable, pushbackKey, "0"), nil, 1, 2, 0},
		"push-back, never":                     {statusOnly(codes.Unavailable, pushbackKey, "-1"), nil, 1, 1, 0},
		"push-back, malformed":                 {statusOnly(codes.Unavailable, pushbackKey, "1s"), nil, 1, 1, 0},
		"push-back, twice":                     {statusOnly(codes.Unavailable, pushbackKey, "1", pushbackKey, "1"), nil, 1, 1, 0},
		"push-back, beyond the limit":          {statusOnly(codes.Unavailable, pushbackKey, "60000"), nil, 1, 1, 0},
		"push-back of a code not retried":      {statusOnly(codes.NotFound, pushbackKey, "1"), allCodes, 1, 1, 0},
		"RESOURCE_EXHAUSTED, all codes":        {statusOnly(codes.ResourceExhausted), allCodes, 1, 1, 0},
		"RESOURCE_EXHAUSTED, push-back":        {statusOnly(codes.ResourceExhausted, pushbackKey, "1"), allCodes, 1, 2, 0},
		"RESOURCE_EXHAUSTED, not among codes":  {statusOnly(codes.ResourceExhausted, pushbackKey, "1"), nil, 1, 1, 0},
		"RESOURCE_EXHAUSTED, RetryInfo":        {statusOnly(codes.ResourceExhausted, "grpc-status-details-bin", soon), allCodes, 1, 2, 0},
		"RESOURCE_EXHAUSTED, RetryInfo, never": {statusOnly(codes.ResourceExhausted, "grpc-status-details-bin", never), allCodes, 1, 1, 0},
		"refused stream":                       {refuse, nil, 2, 2, 0},
		"refused stream, no codes":             {refuse, noCodes, 2, 2, 0},
		"refused stream, one attempt":          {refuse, one, 2, 2, 0}, // by grpc-go
		"left out by a GOAWAY":                 {leaveOut, nil, 2, 2, 0},
		"connection lost":                      {loseConn, nil, 1, 2, 0},
		"connection lost, no codes":            {loseConn, noCodes, 1, 1, 0},
		"reset, INTERNAL, all codes":           {func(s *rawStream) { _ = s.framer.WriteRSTStream(s.id, http2.ErrCodeInternal) }, allCodes, 1, 1, 0},
		"no gRPC, 503":                         {func(s *rawStream) { s.headers(true, ":status", "503") }, nil, 1, 2, 0},
		"no gRPC, 429":                         {func(s *rawStream) { s.headers(true, ":status", "429") }, nil, 1, 1, 0},
		"begun, UNAVAILABLE":                   {func(s *rawStream) { s.begin(); s.headers(true, "grpc-status", "14") }, nil, 1, 1, 2},
		"begun, refused":                       {func(s *rawStream) { s.readAll(); s.begin(); refuse(s) }, nil, 1, 1, 2},
		"begun, connection lost":               {func(s *rawStream) { s.begin(); loseConn(s) }, nil, 1, 1, 2},
		"begun, INTERNAL":                      {func(s *rawStream) { s.begin(); s.headers(true, "grpc-status", "13") }, nil, 1, 1, 0},
		"begun, push-back, never":              {func(s *rawStream) { s.begin(); s.headers(true, "grpc-status", "14", pushbackKey, "-1") }, nil, 1, 1, 0},
	} {
		for _, r := range roads() {
			for _, idempotent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/idempotent %v", name, road(r), idempotent), func(t *testing.T) {
					t.Parallel()
					r := r
					s := &script{lines: []func(*rawStream){tt.happens, answerOK}}
					b := newBackend(t, serveRaw(t, s.answer).addr, func(c *config.Backend) {
						quick(c)
						if tt.change != nil {
							tt.change(c)
						}
					}, Options{})
					want := tt.once
					if idempotent {
						want = tt.always
						if tt.unary > 0 && !r.ClientStreams && !r.ServerStreams {
							want = tt.unary
						}
					}
					served := &Served{}
					r.Idempotent, r.Served = idempotent, served
					ex := &exchange{requests: []string{"x"}}
					err := b.Forward(testContext(t), &r, ex)
					if got := s.requests(); got != want {
						t.Errorf("%d attempts, want %d; Forward: %T %v", got, want, err, err)
					}
					if (err == nil) != (want == 2) || (len(ex.messages) == 1) != (want == 2) {
						t.Errorf("Forward: %v, with %d messages", err, len(ex.messages))
					}
					// grpc-go itself repeats what is refused before a message was sent.
					byGRPC := tt.once == 2 && served.Attempts == 1
					if served.Attempts != want && !byGRPC {
						t.Errorf("told of %d attempts, want %d", served.Attempts, want)
					}
				})
			}
		}
	}
}

// Neither a call that a response message came for is made again, nor a stream
// that a header came for, nor a call that is not idempotent once anything of it
// was sent.
func TestRetryNeverRepeatsWhatMayNotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		idempotent  bool
		onlyStreams bool
		answer      grpc.StreamHandler
	}{
		"a header came": {true, true, func(_ any, ss grpc.ServerStream) error {
			_ = ss.SendHeader(metadata.Pairs("h", "1"))
			return status.Error(codes.Unavailable, "")
		}},
		"a message came": {true, false, func(_ any, ss grpc.ServerStream) error {
			_ = ss.SendMsg(&Frame{Data: message("m")})
			return status.Error(codes.Unavailable, "")
		}},
		"an empty message came": {true, false, func(_ any, ss grpc.ServerStream) error {
			_ = ss.SendMsg(&Frame{})
			return status.Error(codes.Unavailable, "")
		}},
		"it was sent": {false, false, func(any, grpc.ServerStream) error { return status.Error(codes.Unavailable, "") }},
	} {
		for _, r := range roads() {
			if tt.onlyStreams && !r.ClientStreams && !r.ServerStreams {
				continue
			}
			t.Run(name+"/"+road(r), func(t *testing.T) {
				var mu sync.Mutex
				calls := 0
				s := serve(t, func(srv any, ss grpc.ServerStream) error {
					mu.Lock()
					calls++
					mu.Unlock()
					return tt.answer(srv, ss)
				})
				b := newBackend(t, s.addr, quick, Options{})
				r.Idempotent = tt.idempotent
				err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
				if status.Code(err) != codes.Unavailable || calls != 1 {
					t.Errorf("Forward: %T %v after %d attempts, want UNAVAILABLE after 1", err, err, calls)
				}
			})
		}
	}
}

// Nothing listens: there is no load, and no budget is needed.
func TestRetryWithoutAConnection(t *testing.T) {
	b := newBackend(t, "127.0.0.1:1", func(c *config.Backend) {
		quick(c)
		c.Retry.Budget = config.RetryBudget{}
	}, Options{})
	served := &Served{}
	for _, r := range roads() {
		r.Served = served
		err := b.Forward(testContext(t), &r, &exchange{requests: []string{"x"}})
		if lost, ok := errors.AsType[*UnreachableError](err); !ok || lost.Sent || served.Attempts != 3 || served.Endpoint != "" {
			t.Errorf("%s: %T %v, %+v; want an UnreachableError after 3 attempts", road(r), err, err, served)
		}
	}
}

// A retry goes to an endpoint that was not tried yet.
func TestRetryGoesElsewhere(t *testing.T) {
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		t.Run(policy, func(t *testing.T) {
			var addrs []string
			var scripts []*script
			for range 3 {
				s := &script{lines: []func(*rawStream){statusOnly(codes.Unavailable)}}
				scripts = append(scripts, s)
				addrs = append(addrs, serveRaw(t, s.answer).addr)
			}
			b := newBackend(t, addrs[0], func(c *config.Backend) {
				quick(c)
				c.Endpoints, c.Balancer.Policy = addrs, policy
				c.Retry.Budget.MinPerSecond = 1000
				c.Ejection.ConsecutiveFailures, c.Ejection.SuccessDeviations = 0, 0
			}, Options{})
			waitFor(t, "all connections", func() bool {
				// On the connection that is used below; under ring_hash with any key.
				r := &Request{Method: testMethod, HashKey: fmt.Sprint(time.Now().UnixNano()), Credential: app("a")}
				_ = b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
				for _, s := range scripts {
					if s.requests() == 0 {
						return false
					}
				}
				return true
			})
			for range 5 {
				before := []int{scripts[0].requests(), scripts[1].requests(), scripts[2].requests()}
				r := &Request{Method: testMethod, Idempotent: true, Served: &Served{}, Credential: app("a")}
				err := b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
				for i, s := range scripts {
					if s.requests() != before[i]+1 {
						t.Errorf("endpoint %d was tried %d times, want once each; %v", i, s.requests()-before[i], err)
					}
				}
				if !slices.Contains(addrs, r.Served.Endpoint) {
					t.Errorf("served by %q", r.Served.Endpoint)
				}
			}
		})
	}
}

// The backend is told of attempts it may know of, and of the caller's own.
func TestPreviousAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		callers []string
		refused bool
		want    [][]string
	}{
		"none":                  {nil, false, [][]string{nil, {"1"}, {"2"}}},
		"the caller's":          {[]string{"3"}, false, [][]string{{"3"}, {"4"}, {"5"}}},
		"malformed":             {[]string{"x"}, false, [][]string{{"x"}, {"1"}, {"2"}}},
		"the first was refused": {nil, true, [][]string{nil, {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var got [][]string
			s := serve(t, func(_ any, ss grpc.ServerStream) error {
				md, _ := metadata.FromIncomingContext(ss.Context())
				mu.Lock()
				defer mu.Unlock()
				got = append(got, md[previousKey])
				return status.Error(codes.Unavailable, "")
			})
			b := newBackend(t, s.addr, quick, Options{})
			r := &Request{Method: testMethod, Idempotent: true}
			if tt.callers != nil {
				r.Metadata = metadata.MD{previousKey: tt.callers}
			}
			if tt.refused {
				c := newCall(testContext(t), b, mustMethod(t, b), r, &exchange{})
				c.in, c.attempts = message("x"), 1
				c.first.peer.Addr, c.first.reached = nil, false
				c.maxAttempts, c.idempotent = 3, true
				next := c.another(&c.first)
				_ = next.try(testContext(t))
				next = c.another(next)
				_ = next.try(testContext(t))
			} else {
				_ = b.Forward(testContext(t), r, &exchange{requests: []string{"x"}})
			}
			if !slices.EqualFunc(got, tt.want, slices.Equal) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func mustMethod(t *testing.T, b *Backend) *method {
	t.Helper()
	m, err := b.methods.get(testMethod)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

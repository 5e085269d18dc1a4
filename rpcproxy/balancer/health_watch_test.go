package balancer

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// script is a health client whose watches give what they are told to: the nth
// one the nth list, at intervals of a second, and then its error; without one
// they hang.
type script struct {
	mu      sync.Mutex
	watches [][]any
	begun   []time.Time
}

func (s *script) Check(context.Context, *grpc_health_v1.HealthCheckRequest, ...grpc.CallOption) (*grpc_health_v1.HealthCheckResponse, error) {
	return nil, errors.New("not used")
}

func (s *script) List(context.Context, *grpc_health_v1.HealthListRequest, ...grpc.CallOption) (*grpc_health_v1.HealthListResponse, error) {
	return nil, errors.New("not used")
}

func (s *script) Watch(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.begun), len(s.watches)-1)
	s.begun = append(s.begun, time.Now())
	return &scripted{ctx: ctx, says: s.watches[n]}, nil
}

type scripted struct {
	grpc.ClientStream

	ctx  context.Context //nolint:containedctx // a stream's
	says []any
}

func (s *scripted) Recv() (*grpc_health_v1.HealthCheckResponse, error) {
	if len(s.says) == 0 {
		<-s.ctx.Done()
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
	next := s.says[0]
	s.says = s.says[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	time.Sleep(time.Second)
	return &grpc_health_v1.HealthCheckResponse{Status: next.(grpc_health_v1.HealthCheckResponse_ServingStatus)}, nil
}

func testEndpoint(t *testing.T) *fleet.Endpoint {
	t.Helper()
	f, err := fleet.New(config.DefaultBackend("test"), fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f.Update([]fleet.Info{{Address: "a:1"}, {Address: "b:1"}})[0]
}

// watching runs a watch in fake time, and then the check.
func watching(t *testing.T, watches [][]any, check func(e *fleet.Endpoint, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, s := testEndpoint(t), &script{watches: watches}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { healthWatch{endpoint: e}.run(ctx, s) })
		check(e, s)
		cancel()
		group.Wait()
	})
}

func wantHealth(t *testing.T, e *fleet.Endpoint, after time.Duration, want fleet.Health) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := e.Health(); got != want {
		t.Errorf("%v later the endpoint is %v, want %v", after, got, want)
	}
}

func TestWatchFollows(t *testing.T) {
	watching(t, [][]any{{serving, notServing, serving}}, func(e *fleet.Endpoint, _ *script) {
		wantHealth(t, e, 0, fleet.Unknown)
		wantHealth(t, e, time.Second, fleet.Serving)
		wantHealth(t, e, time.Second, fleet.NotServing)
		wantHealth(t, e, time.Second, fleet.Serving)
		wantHealth(t, e, time.Hour, fleet.Serving)
	})
}

// What the endpoint last said holds for a while when it cannot be asked, and is
// asked for at growing intervals.
func TestWatchBreaks(t *testing.T) {
	lost := status.Error(codes.Unavailable, "lost")
	watching(t, [][]any{{notServing, lost}, {lost}}, func(e *fleet.Endpoint, s *script) {
		wantHealth(t, e, time.Second, fleet.NotServing)
		wantHealth(t, e, keepHealth-time.Millisecond, fleet.NotServing)
		wantHealth(t, e, time.Millisecond, fleet.Unknown)
		time.Sleep(10 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.begun); n < 10 || n > 20 {
			t.Errorf("it was asked %d times", n)
		}
		if last := len(s.begun) - 1; s.begun[last].Sub(s.begun[last-1]) < longestPause*8/10 {
			t.Errorf("the last pause was %v", s.begun[last].Sub(s.begun[last-1]))
		}
	})
}

// A watch that is heard of again forgets nothing, and waits no longer.
func TestWatchIsTakenUpAgain(t *testing.T) {
	lost := status.Error(codes.Internal, "lost")
	watching(t, [][]any{{notServing, lost}, {lost}, {lost}, {notServing, io.EOF}, {serving}}, func(e *fleet.Endpoint, s *script) {
		wantHealth(t, e, time.Second, fleet.NotServing)
		for e.Health() == fleet.NotServing {
			time.Sleep(time.Millisecond)
		}
		wantHealth(t, e, 0, fleet.Serving)
		if waited := time.Since(s.begun[0]); waited < 7*time.Second || waited > 12*time.Second {
			t.Errorf("it was heard of again after %v", waited)
		}
	})
}

// An endpoint that takes the question and says nothing is as good as one that
// cannot be asked.
func TestWatchIsNotAnswered(t *testing.T) {
	watching(t, [][]any{{notServing, io.EOF}, {}}, func(e *fleet.Endpoint, s *script) {
		wantHealth(t, e, time.Second, fleet.NotServing)
		wantHealth(t, e, keepHealth+answerTimeout+2*time.Second, fleet.Unknown)
	})
}

// What another connection heard is forgotten, too.
func TestWatchBeginsWithAnothersState(t *testing.T) {
	watching(t, [][]any{{}}, func(e *fleet.Endpoint, _ *script) {
		e.SetHealth(fleet.NotServing)
		wantHealth(t, e, keepHealth-time.Second, fleet.NotServing)
		wantHealth(t, e, answerTimeout, fleet.Unknown)
	})
}

func TestWatchIsNotOffered(t *testing.T) {
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied} {
		watching(t, [][]any{{notServing, status.Error(code, "no")}}, func(e *fleet.Endpoint, s *script) {
			wantHealth(t, e, time.Second, fleet.Unknown)
			time.Sleep(time.Hour)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.begun) != 1 {
				t.Errorf("%v: it was asked %d times", code, len(s.begun))
			}
		})
	}
}

func TestHealthOf(t *testing.T) {
	const unknown, serviceUnknown = grpc_health_v1.HealthCheckResponse_UNKNOWN, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	for _, test := range []struct {
		service string
		says    grpc_health_v1.HealthCheckResponse_ServingStatus
		want    fleet.Health
	}{
		{"", serving, fleet.Serving},
		{"", notServing, fleet.NotServing},
		{"", unknown, fleet.NotServing},
		{"", serviceUnknown, fleet.Unknown},
		{"a.B", serviceUnknown, fleet.NotServing},
		{"a.B", serving, fleet.Serving},
		{"", 77, fleet.NotServing},
	} {
		if got := (healthWatch{service: test.service}).healthOf(test.says); got != test.want {
			t.Errorf("%q of service %q: %v, want %v", test.says, test.service, got, test.want)
		}
	}
}

package balancer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeConn stands for an endpoint's SubConn.
type fakeConn struct {
	balancer.SubConn
	name string
}

type fakePickers struct {
	*p2cPickers
	conns []*fakeConn
}

func newFakePickers(n int) *fakePickers {
	f := &fakePickers{p2cPickers: &p2cPickers{epoch: time.Now(), known: map[balancer.SubConn]*endpoint{}}}
	for i := range n {
		f.conns = append(f.conns, &fakeConn{name: fmt.Sprint(i)})
	}
	return f
}

// picker is one over the endpoints with the given numbers.
func (f *fakePickers) picker(numbers ...int) balancer.Picker {
	ready := map[balancer.SubConn]base.SubConnInfo{}
	for _, i := range numbers {
		ready[f.conns[i]] = base.SubConnInfo{}
	}
	return f.Build(base.PickerBuildInfo{ReadySCs: ready})
}

func pick(t *testing.T, p balancer.Picker) (*fakeConn, func(error)) {
	t.Helper()
	r, err := p.Pick(balancer.PickInfo{Ctx: context.Background()})
	if err != nil {
		t.Fatal(err)
	}
	return r.SubConn.(*fakeConn), func(err error) { r.Done(balancer.DoneInfo{Err: err}) }
}

func TestP2CWithoutEndpoints(t *testing.T) {
	_, err := newFakePickers(0).picker().Pick(balancer.PickInfo{})
	if !errors.Is(err, balancer.ErrNoSubConnAvailable) {
		t.Errorf("Pick: %v", err)
	}
}

// train makes calls that take their endpoint's time, one at a time.
func (f *fakePickers) train(t *testing.T, p balancer.Picker, n int, latency map[string]time.Duration, errs map[string]error) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		c, done := pick(t, p)
		counts[c.name]++
		time.Sleep(latency[c.name])
		done(errs[c.name])
	}
	return counts
}

func TestP2CPrefersTheFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(2)
		p := f.picker(0, 1)
		latency := map[string]time.Duration{"0": 100 * time.Millisecond, "1": 10 * time.Millisecond}
		counts := f.train(t, p, 2000, latency, nil)
		// The slow one is still tried: about once a second.
		if counts["0"] < 10 || counts["0"] > 100 {
			t.Errorf("picks %v", counts)
		}
	})
}

// An endpoint that was slow and is well again looks so: by one call a second.
func TestP2CForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(2)
		p := f.picker(0, 1)
		f.train(t, p, 500, map[string]time.Duration{"0": time.Second, "1": 10 * time.Millisecond}, nil)
		same := map[string]time.Duration{"0": 10 * time.Millisecond, "1": 10 * time.Millisecond}
		f.train(t, p, 12000, same, nil) // two minutes
		once, now := f.known[f.conns[0]].load(), f.known[f.conns[1]].load()
		if once > 1.1*now {
			t.Errorf("loads %v and %v", once, now)
		}
	})
}

func TestP2CKeepsStateAcrossPickers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(3)
		latency := map[string]time.Duration{"0": 500 * time.Millisecond, "1": 10 * time.Millisecond, "2": 10 * time.Millisecond}
		f.train(t, f.picker(0, 1), 1000, latency, nil)
		// Another endpoint comes: what was known of the slow one is still known.
		counts := f.train(t, f.picker(0, 1, 2), 100, latency, nil)
		if counts["0"] > 10 {
			t.Errorf("picks %v", counts)
		}
		// It goes away for a moment and comes back.
		f.picker(1, 2)
		counts = f.train(t, f.picker(0, 1, 2), 50, latency, nil)
		if counts["0"] > 5 {
			t.Errorf("picks after a reconnect %v", counts)
		}
	})
}

func TestP2CForgetsEndpointsThatAreGone(t *testing.T) {
	f := newFakePickers(1000)
	for i := range 998 {
		f.picker(i, i+1)
	}
	if n := len(f.known); n > 4 {
		t.Errorf("%d endpoints are remembered, of which 2 are ready", n)
	}
}

// A new endpoint that hangs is not sent everything.
func TestP2CNewEndpointThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(3)
		latency := map[string]time.Duration{"0": 10 * time.Millisecond, "1": 10 * time.Millisecond}
		f.train(t, f.picker(0, 1), 1000, latency, nil)
		p := f.picker(0, 1, 2)
		hanging := 0
		for range 1000 {
			c, done := pick(t, p)
			if c.name == "2" {
				hanging++
				continue // never done
			}
			time.Sleep(latency[c.name])
			done(nil)
		}
		if hanging > 50 {
			t.Errorf("%d of 1000 calls went to the endpoint that hangs", hanging)
		}
	})
}

func TestP2CCountsFailuresButNotCancellations(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		healthy bool
	}{
		"ok":          {nil, true},
		"not found":   {status.Error(codes.NotFound, ""), true},
		"cancelled":   {status.Error(codes.Canceled, ""), true},
		"unavailable": {status.Error(codes.Unavailable, ""), false},
		"deadline":    {status.Error(codes.DeadlineExceeded, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakePickers(1)
				p := f.picker(0)
				for range 20 {
					_, done := pick(t, p)
					time.Sleep(time.Second)
					done(tt.err)
				}
				e := f.known[f.conns[0]]
				if e.healthy() != tt.healthy || e.inflight.Load() != 0 {
					t.Errorf("healthy %v, %d in flight", e.healthy(), e.inflight.Load())
				}
			})
		})
	}
}

// A failing endpoint that answers at once gets fewer calls than a slow good one.
func TestP2CFailingFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(2)
		p := f.picker(0, 1)
		latency := map[string]time.Duration{"0": time.Millisecond, "1": 50 * time.Millisecond}
		errs := map[string]error{"0": status.Error(codes.Unavailable, "")}
		f.train(t, p, 10_000, latency, errs) // ten seconds: its average falls
		counts := f.train(t, p, 1000, latency, errs)
		if counts["0"] > 100 {
			t.Errorf("picks %v", counts)
		}
	})
}

// A stream's life is no latency; its end counts, and it is in flight till then.
func TestP2CStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(1)
		p := f.picker(0)
		_, done := pick(t, p)
		time.Sleep(10 * time.Millisecond)
		done(nil)
		e := f.known[f.conns[0]]
		lag := e.lag.Load()
		stream := func(d time.Duration, err error) {
			r, pickErr := p.Pick(balancer.PickInfo{Ctx: WithStream(context.Background())})
			if pickErr != nil {
				t.Fatal(pickErr)
			}
			if n := e.inflight.Load(); n != 1 {
				t.Fatalf("%d in flight", n)
			}
			time.Sleep(d)
			r.Done(balancer.DoneInfo{Err: err})
		}
		stream(time.Hour, nil)
		stream(time.Hour, status.Error(codes.Canceled, ""))
		if got := e.lag.Load(); got != lag || !e.healthy() || e.inflight.Load() != 0 {
			t.Errorf("lag %v, was %v; healthy %v, %d in flight",
				math.Float64frombits(got), math.Float64frombits(lag), e.healthy(), e.inflight.Load())
		}
		stream(time.Hour, status.Error(codes.Unavailable, ""))
		if e.lag.Load() != lag || e.healthy() {
			t.Error("a stream's failure does not count, or its duration does")
		}
	})
}

// Latency is learnt as before where streams end all the time.
func TestP2CStreamsBesideCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakePickers(1)
		p := f.picker(0)
		for range 100 {
			r, err := p.Pick(balancer.PickInfo{Ctx: WithStream(context.Background())})
			if err != nil {
				t.Fatal(err)
			}
			r.Done(balancer.DoneInfo{})
		}
		_, done := pick(t, p)
		time.Sleep(10 * time.Millisecond)
		done(nil)
		e := f.known[f.conns[0]]
		if got := time.Duration(math.Float64frombits(e.lag.Load())); got < 9*time.Millisecond {
			t.Errorf("the first call took 10ms, the latency is %v", got)
		}
	})
}

func BenchmarkP2CPick(b *testing.B) {
	f := newFakePickers(5)
	p := f.picker(0, 1, 2, 3, 4)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		info := balancer.PickInfo{Ctx: context.Background()}
		for pb.Next() {
			r, err := p.Pick(info)
			if err != nil {
				b.Error(err)
				return
			}
			r.Done(balancer.DoneInfo{})
		}
	})
}

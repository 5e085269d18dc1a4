package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper answers after a while.
type sleeper struct {
	takes time.Duration
	fails int64 // the number of the call that fails; 0: none
	calls atomic.Int64
}

var errSleeper = errors.New("refused")

func (s *sleeper) Call(ctx context.Context) error {
	if s.calls.Add(1) == s.fails {
		return errSleeper
	}
	return wait(ctx, s.takes)
}

func (s *sleeper) Close() error { return nil }

func TestRunCountsWhatEndsWhileItMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var marks []time.Duration
		start := time.Now()
		// The calls end off the plan's own instants, so that none of them is on the edge.
		quick, slow := &sleeper{takes: 7 * time.Millisecond}, &sleeper{takes: 30 * time.Millisecond}
		r, err := Run(t.Context(), []Caller{quick, slow}, Plan{
			Warmup: 100 * time.Millisecond, Measure: time.Second,
			Mark: func() error {
				marks = append(marks, time.Since(start))
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// Ends in (100ms, 1100ms): multiples of 7ms, 15 to 157; of 30ms, 4 to 36.
		if want := (157 - 15 + 1) + (36 - 4 + 1); r.Requests != want {
			t.Errorf("%d requests, want %d", r.Requests, want)
		}
		if r.Elapsed != time.Second || r.P50 != 7*time.Millisecond || r.P99 != 30*time.Millisecond {
			t.Errorf("elapsed %v, p50 %v, p99 %v", r.Elapsed, r.P50, r.P99)
		}
		if r.Rate() != float64(r.Requests) {
			t.Errorf("rate is %v for %d requests in a second", r.Rate(), r.Requests)
		}
		if len(marks) != 2 || marks[0] != 100*time.Millisecond || marks[1] != 1100*time.Millisecond {
			t.Errorf("marked at %v", marks)
		}
	})
}

func TestRunEndsWithTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := Run(t.Context(), []Caller{
			&sleeper{takes: time.Millisecond},
			&sleeper{takes: time.Millisecond, fails: 50},
		}, Plan{Warmup: time.Second, Measure: time.Hour, Mark: func() error { return nil }})
		if !errors.Is(err, errSleeper) {
			t.Errorf("error %v, want %v", err, errSleeper)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it went on for %v", took)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := Run(ctx, []Caller{&sleeper{takes: time.Minute}},
			Plan{Warmup: time.Second, Measure: time.Hour, Mark: func() error { return nil }})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestRunWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Run(t.Context(), []Caller{&sleeper{takes: 10 * time.Second}},
			Plan{Measure: time.Second, Mark: func() error { return nil }})
		if err == nil {
			t.Error("no error for a round in which nothing ended")
		}
	})
}

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	tests := []struct {
		samples []time.Duration
		q       float64
		want    time.Duration
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2, 3}, 0.50, 2},
		{[]time.Duration{1, 2, 3}, 0.99, 3},
	}
	for _, tc := range tests {
		if got := quantile(tc.samples, tc.q); got != tc.want {
			t.Errorf("quantile(%d samples, %v) = %v, want %v", len(tc.samples), tc.q, got, tc.want)
		}
	}
}

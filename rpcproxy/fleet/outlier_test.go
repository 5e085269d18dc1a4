package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// mixed makes calls of which some fail, spread evenly so that few do in a row.
func (d *field) mixed(i, calls, failures int) {
	for n := range calls {
		o := Success
		if (n+1)*failures/calls > n*failures/calls {
			o = Failure
		}
		d.call(i, 1, o)
	}
}

// sweeps has the interval end.
func (d *field) sweeps() {
	d.pass(d.cfg.Ejection.Interval)
	d.call(len(d.endpoints)-1, 1, Success)
}

func TestSuccessRateEjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failures []int // of 100 calls each
		want     string
	}{
		"all well":                   {[]int{0, 0, 0, 0}, ""},
		"one of three":               {[]int{30, 0, 0}, "a"},
		"one of three, others so-so": {[]int{40, 2, 4}, "a"},
		"one of many":                {[]int{0, 0, 0, 30, 0, 0, 0, 0, 0, 0}, "d"},
		"within the tolerance":       {[]int{4, 0, 0, 0}, ""},
		"all alike sick":             {[]int{50, 50, 50, 50}, ""},
		"much alike":                 {[]int{10, 14, 8, 11, 9}, ""},
		"scattered":                  {[]int{10, 0, 20, 5, 15}, "c"},
		"two of five":                {[]int{60, 60, 0, 0, 0}, ""}, // each makes the other seem less odd
		"two of ten":                 {[]int{60, 60, 0, 0, 0, 0, 0, 0, 0, 0}, "ab"},
		"too few to compare":         {[]int{60, 0}, ""},
		"the worse first":            {[]int{60, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newField(t, len(test.failures), func(b *config.Backend) { b.Ejection.ConsecutiveFailures = 0 })
			for i, failures := range test.failures {
				d.mixed(i, 100, failures)
			}
			d.wantEjected("before the interval ends", "")
			d.sweeps()
			d.wantEjected("after it", test.want)
			for _, e := range d.told(Ejected) {
				if e.Reason != SuccessRate || !strings.Contains(e.Detail, "of 100 calls succeeded, of the others' ") {
					t.Errorf("told %+v", e)
				}
			}
		})
	}
}

// Where there is no room for all outliers, the worst are ejected.
func TestWorstIsEjectedFirst(t *testing.T) {
	t.Parallel()
	d := newField(t, 10, func(b *config.Backend) {
		b.Ejection.ConsecutiveFailures, b.Ejection.MaxShare, b.Ejection.LatencyFactor = 0, 0.1, 3
	})
	for i := range d.endpoints {
		d.mixed(i, 100, []int{60, 80, 0, 0, 0, 0, 0, 0, 0, 0}[i])
	}
	d.sweeps()
	d.wantEjected("by successes", "b")

	d = newField(t, 10, func(b *config.Backend) { b.Ejection.MaxShare, b.Ejection.LatencyFactor = 0.1, 3 })
	for i := range d.endpoints {
		d.took(i, 100, time.Millisecond*time.Duration([]int{50, 90, 9, 9, 9, 10, 9, 9, 9, 9}[i]))
	}
	d.sweeps()
	d.wantEjected("by latency", "b")
}

func TestLatencyEjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took []time.Duration
		want string
	}{
		"all alike":          {[]time.Duration{10 * time.Millisecond, 11 * time.Millisecond, 12 * time.Millisecond}, ""},
		"one is slow":        {[]time.Duration{10 * time.Millisecond, 31 * time.Millisecond, 10 * time.Millisecond}, "b"},
		"below the factor":   {[]time.Duration{10 * time.Millisecond, 29 * time.Millisecond, 10 * time.Millisecond}, ""},
		"all are very fast":  {[]time.Duration{10 * time.Microsecond, 900 * time.Microsecond, 10 * time.Microsecond}, ""},
		"too few to compare": {[]time.Duration{10 * time.Millisecond, time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newField(t, len(test.took), func(b *config.Backend) { b.Ejection.LatencyFactor = 3 })
			for i, latency := range test.took {
				d.took(i, 100, latency)
			}
			d.sweeps()
			d.wantEjected("after the interval", test.want)
			for _, e := range d.told(Ejected) {
				if e.Reason != Latency || e.Detail != "31ms on average of 100 calls, the others' median is 10ms" {
					t.Errorf("told %+v", e)
				}
			}
		})
	}
}

// Endpoints with few calls are not compared, and calls of one interval do not
// add up with those of the next.
func TestFewCallsAreNotCompared(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, func(b *config.Backend) { b.Ejection.ConsecutiveFailures = 0 })
	for range 5 {
		d.mixed(0, 19, 10)
		d.call(1, 100, Success)
		d.call(2, 100, Success)
		d.call(3, 100, Success)
		d.sweeps()
	}
	d.wantEjected("with 19 calls in each interval", "")
}

// The first call that ends after an interval compares. When that is long after
// it, what is known is of a time too long ago.
func TestSweepAtLowTraffic(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]string{11 * time.Second: "a", 19 * time.Second: "a", 20 * time.Second: "", time.Hour: ""} {
		d := newField(t, 4, func(b *config.Backend) { b.Ejection.ConsecutiveFailures = 0 })
		for i := range d.endpoints {
			d.mixed(i, 100, []int{50, 0, 0, 0}[i])
		}
		d.pass(pause)
		d.call(3, 1, Success)
		d.wantEjected(pause.String()+" later", want)
	}
}

// What an endpoint did before and while it was ejected is not held against it.
func TestReadmittedBeginsAnew(t *testing.T) {
	t.Parallel()
	d := newField(t, 4, nil)
	for i := range d.endpoints {
		d.mixed(i, 100, []int{30, 0, 0, 0}[i])
	}
	d.call(0, 5, Failure)
	d.pass(6 * time.Second)
	d.call(0, 1, Success)
	d.wantEjected("after a trial", "")
	d.mixed(0, 100, 0)
	d.sweeps()
	d.wantEjected("after the interval", "")
}

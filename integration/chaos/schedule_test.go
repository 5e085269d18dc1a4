package chaos

import (
	"testing"
	"time"
)

// The schedules of a seed stay what they are: a report of a fault names its
// seed alone.
func TestSameSeedSameSchedule(t *testing.T) {
	t.Parallel()
	const golden = ``
	if got := Draw(1, 20*time.Second).String(); got != golden {
		t.Errorf("got\n%swant\n%s", got, golden)
	}
}

func TestSchedulesAreSound(t *testing.T) {
	t.Parallel()
	seen := map[Kind]int{}
	worst := map[int]int{}
	for seed := range uint64(500) {
		const length = 45 * time.Second
		s := Draw(seed, length)
		if len(s) < 10 {
			t.Errorf("seed %d has %d faults", seed, len(s))
		}
		sick := 0
		for i, f := range s {
			seen[f.Kind]++
			if f.At < quiet || f.For <= 0 || f.over() > length-quiet {
				t.Errorf("seed %d: %v", seed, f)
			}
			if f.Jitter > f.Latency {
				t.Errorf("seed %d: %v would come before it was sent", seed, f)
			}
			sick = max(sick, s.Sick(f.At))
			for _, g := range s[i+1:] {
				switch {
				case g.At < f.At:
					t.Errorf("seed %d: %v is before %v", seed, f, g)
				case f.ofEndpoint() && g.ofEndpoint() && f.Target == g.Target && g.At < f.over():
					t.Errorf("seed %d: %v and %v are of one endpoint", seed, f, g)
				case !f.ofEndpoint() && !g.ofEndpoint() && g.At < f.over():
					t.Errorf("seed %d: %v and %v are at the same time", seed, f, g)
				}
			}
		}
		if sick >= Endpoints {
			t.Errorf("seed %d: no endpoint is healthy", seed)
		}
		worst[sick]++
	}
	for _, of := range []weights{endpointKinds, otherKinds} {
		for _, w := range of {
			if w.kind != rolling && seen[w.kind] < 100 {
				t.Errorf("%s was drawn %d times", w.kind, seen[w.kind])
			}
		}
	}
	if worst[Endpoints-1] < 250 {
		t.Errorf("most endpoints that were sick at once, and in how many schedules: %v", worst)
	}
}

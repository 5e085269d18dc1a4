package chaos

import (
	"testing"
	"time"
)

// The schedules of a seed stay what they are: a report of a fault names its
// seed alone.
func TestSameSeedSameSchedule(t *testing.T) {
	t.Parallel()
	for seed, golden := range map[uint64]string{
		firstShort: `  1.00s kill endpoint 1 for 1.961s
  1.41s redis-kill for 948ms
  1.84s pause endpoint 3 for 1.875s
  2.44s pause endpoint 4 for 580ms
  4.24s drop endpoint 2 for 1.157s
  6.16s etcd-kill for 318ms
  6.72s reset endpoint 1 for 902ms
`,
		secondShort: `  1.00s silence endpoint 1 for 736ms
  1.70s silence endpoint 3 for 823ms
  2.27s gateway-restart gateway 0 for 554ms
  2.56s restart endpoint 2 for 1.838s
  4.55s kill endpoint 4 for 1.435s
  4.89s delay endpoint 1 by 192ms ± 75ms for 2.028s
  6.05s pause endpoint 3 for 1.179s
`,
	} {
		if got := Draw(seed, shortLength).String(); got != golden {
			t.Errorf("seed %d: got\n%swant\n%s", seed, got, golden)
		}
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

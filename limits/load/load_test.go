package load

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// What this process burns is seen.
func TestCPUSeesOwnWork(t *testing.T) {
	t.Parallel()
	c := NewCPU()
	if c.group != nil {
		t.Skip("a quota bounds the tests: what they burn is not all their own")
	}
	for limit := time.Now().Add(time.Minute); c.Share() == 0; {
		if time.Now().After(limit) {
			t.Fatal("no work was seen")
		}
	}
}

// Goroutines that wait for processors are seen waiting.
func TestQueueSeesWaiting(t *testing.T) {
	t.Parallel()
	q := NewQueue()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 200 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
					}
					runtime.Gosched()
				}
			}
		})
	}
	longest := time.Duration(0)
	for limit := time.Now().Add(time.Minute); longest < 5*time.Millisecond && time.Now().Before(limit); {
		runtime.Gosched()
		longest = max(longest, q.Mean())
	}
	close(stop)
	wg.Wait()
	if longest < 5*time.Millisecond {
		t.Errorf("with hundreds of busy goroutines the longest mean is %v", longest)
	}
}

package gateway

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rpcgate/rpcgate/limits"
)

func TestShedLogTellsReasons(t *testing.T) {
	var totals [limits.Verdicts]atomic.Uint64
	var told shedLog
	for i, step := range []struct {
		calls, share uint64
		want         string
	}{
		{0, 0, "[]"},
		{3, 0, "[shed_max_calls=3 shed=3]"},
		{0, 0, "[]"},
		{2, 5, "[shed_max_calls=2 shed_share=5 shed=7]"},
	} {
		totals[limits.TooMany].Add(step.calls)
		totals[limits.OverShare].Add(step.share)
		if got := fmt.Sprint(told.take(&totals)); got != step.want {
			t.Errorf("step %d: told is %s, want %s", i, got, step.want)
		}
	}
}

package fleet

import (
	"errors"
	"testing"
	"time"
)

// A fleet's opening ends a while after its first connection, whichever that was.
func TestOpening(t *testing.T) {
	t.Parallel()
	d := newField(t, 3, nil)
	want := func(when string, left time.Duration) {
		t.Helper()
		if got := d.Opening(); got != left {
			t.Errorf("%s: %v are left", when, got)
		}
	}
	d.pass(time.Hour)
	d.endpoints[0].Unreachable(errors.New("refused"))
	want("without a connection", openingLimit)
	d.endpoints[1].Connected()
	d.pass(100 * ms)
	want("soon after the first", openingLimit-100*ms)
	for i, known := range []bool{true, true, false} {
		if d.endpoints[i].Known() != known {
			t.Errorf("endpoint %d: known is %v", i, !known)
		}
	}
	d.endpoints[2].Connected()
	want("with another one", openingLimit-100*ms)
	d.pass(time.Second)
	want("later", 0)
	d.endpoints[1].Disconnected()
	d.endpoints[1].Connected()
	want("after it was lost", 0)
}

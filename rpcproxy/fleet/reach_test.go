package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// An endpoint is shown as unreachable while there is no connection to it and some
// cannot be made, and that is told once, however many connections there are.
func TestUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	d := newField(t, 2, nil)
	e := d.endpoints[0]
	state := func() EndpointView { return d.View()[0] }
	e.Connected()
	e.Unreachable(errors.New("refused"))
	if v := state(); v.State != StateOK {
		t.Errorf("with one connection of two it is %+v", v)
	}
	e.Disconnected()
	e.Unreachable(errors.New("refused again " + strings.Repeat("x", 1000)))
	e.Unreachable(errors.New("refused"))
	counted, _ := d.Count()
	if v := state(); v.State != StateUnreachable || v.Reason != "refused" || counted[StateUnreachable] != 1 {
		t.Errorf("without connections it is %+v, and counted as %v", v, counted)
	}
	lost := d.told(Lost)
	if len(lost) != 1 || !strings.HasPrefix(lost[0].Detail, "refused again") || len(lost[0].Detail) > maxReason {
		t.Errorf("told was %v", lost)
	}
	if n := d.served(40)["a"]; n == 0 {
		t.Error("it gets no calls: that is for the connections to say")
	}

	d.pass(time.Minute)
	for range 3 {
		e.Reachable()
		e.Connected()
	}
	if found := d.told(Found); len(found) != 1 || found[0].For != time.Minute || found[0].Address != e.Address() {
		t.Errorf("told was %v", found)
	}
	if v := state(); v.State != StateOK || v.Reason != "" || v.Connections != 3 {
		t.Errorf("with connections it is %+v", v)
	}
}

package chaos

import (
	"fmt"
	"strings"
	"time"
)

// method is what a call calls.
type method string

const (
	look   method = "Look"   // may be repeated
	post   method = "Post"   // may not
	follow method = "Follow" // may be repeated as long as nothing was answered
)

// entries is how many a Follow asks for.
const entries = 3

// entry is one message of an answer.
type entry struct {
	Tag, Endpoint, Execution string
	Number                   int
}

// call is what its caller knows of a call when it is over.
type call struct {
	tag     string
	method  method
	road    string // JSON or gRPC
	gateway int
	began   time.Duration // since the load began
	took    time.Duration

	answers  []entry
	attempts string // as the gateway tells, if it does
	err      error  // nil if it succeeded
	// The gateway was killed under it, or was not there.
	excused bool
}

// mayFail reports whether no success can be asked for: the call may not be
// repeated, or its answer had begun.
func (c *call) mayFail() bool {
	return c.method == post || c.method == follow && len(c.answers) > 0
}

func (c *call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s over %s, gateway %d) at %.3fs, took %v", c.tag, c.method, c.road, c.gateway, c.began.Seconds(), c.took.Round(time.Millisecond))
	if c.attempts != "" {
		fmt.Fprintf(&b, ", attempts %s", c.attempts)
	}
	for _, a := range c.answers {
		fmt.Fprintf(&b, "\n    answered %+v", a)
	}
	if c.err != nil {
		fmt.Fprintf(&b, "\n    failed: %v", c.err)
	}
	return b.String()
}

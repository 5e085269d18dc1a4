package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rpcgate/rpcgate/integration/ledger"
)

// account sets what callers were answered against what the journals say.
type account struct {
	calls   []*call
	journal []ledger.Execution

	executions map[string]ledger.Execution   // by id
	executed   map[string][]ledger.Execution // by tag
}

func newAccount(calls []*call, journal []ledger.Execution) *account {
	a := &account{calls: calls, journal: journal, executions: map[string]ledger.Execution{}, executed: map[string][]ledger.Execution{}}
	for _, e := range journal {
		a.executions[e.ID] = e
		a.executed[e.Tag] = append(a.executed[e.Tag], e)
	}
	return a
}

// violation is a promise that was broken. call is nil where it is no one call's.
type violation struct {
	call *call
	what string
}

// figures is what came of the calls.
type figures struct {
	calls, failed             int
	repeatable, lost          int // calls that may be repeated, and those that failed, less the excused
	excused, cut, unanswered  int // calls under a killed gateway; streams that broke; posts that failed
	executions, repeatedCalls int
}

func (f figures) String() string {
	return fmt.Sprintf("%d calls, %d failed; of %d that may be repeated %d were lost (%.4f %% succeeded); %d streams cut off, "+
		"%d posts failed, %d under a killed gateway; %d executions, %d calls executed more than once",
		f.calls, f.failed, f.repeatable, f.lost, 100*f.success(), f.cut, f.unanswered, f.excused, f.executions, f.repeatedCalls)
}

func (f figures) success() float64 {
	if f.repeatable == 0 {
		return 0
	}
	return 1 - float64(f.lost)/float64(f.repeatable)
}

// leastSuccess is the share of calls that may be repeated which must succeed
// while at least one endpoint is healthy.
const leastSuccess = 0.9999

// check returns the figures and every violation.
func (a *account) check() (figures, []violation) {
	var broken []violation
	f := figures{calls: len(a.calls), executions: len(a.journal)}
	tags := make(map[string]bool, len(a.calls))
	answered := map[string]*call{}
	var lost []*call
	for _, c := range a.calls {
		tags[c.tag] = true
		for _, what := range a.answerFaults(c, answered) {
			broken = append(broken, violation{c, what})
		}
		times := len(a.executed[c.tag])
		if times > 1 {
			f.repeatedCalls++
		}
		if c.method == post && times > 1 {
			broken = append(broken, violation{c, fmt.Sprintf("executed %d times, and may not be repeated", times)})
		}
		switch {
		case c.excused:
			f.excused++
		case c.mayFail() && c.err != nil && c.method == post:
			f.unanswered++
		case c.mayFail() && c.err != nil:
			f.cut++
		case c.method != post:
			f.repeatable++
			if c.err != nil {
				f.lost++
				lost = append(lost, c)
			}
		}
		if c.err != nil {
			f.failed++
		}
	}
	for tag := range a.executed {
		if !tags[tag] {
			broken = append(broken, violation{nil, fmt.Sprintf("%q was executed, and nobody called it", tag)})
		}
	}
	if f.success() < leastSuccess {
		for _, c := range lost {
			broken = append(broken, violation{c, "lost, though it may be repeated"})
		}
	}
	return f, broken
}

// answerFaults tells what is wrong with what a call was answered. answered
// remembers whose answer an execution was.
func (a *account) answerFaults(c *call, answered map[string]*call) []string {
	var faults []string
	want := 1
	if c.method == follow {
		want = entries
	}
	if n := len(c.answers); n > want || c.err == nil && n != want {
		faults = append(faults, fmt.Sprintf("%d messages in the answer, want %d", n, want))
	}
	for i, e := range c.answers {
		done, ok := a.executions[e.Execution]
		switch {
		case e.Tag != c.tag:
			faults = append(faults, "it has the answer of "+e.Tag)
		case !ok:
			faults = append(faults, "its answer is of an execution that no journal has")
		case done.Tag != c.tag || done.Method != string(c.method):
			faults = append(faults, fmt.Sprintf("its answer is of the execution of %s %s", done.Method, done.Tag))
		case !strings.HasPrefix(e.Execution, e.Endpoint+"/"):
			faults = append(faults, "its answer is of another endpoint's execution")
		case e.Number != i:
			faults = append(faults, fmt.Sprintf("message %d of its answer is number %d", i, e.Number))
		case e.Execution != c.answers[0].Execution:
			faults = append(faults, "its answer comes from two executions")
		case answered[e.Execution] != nil && answered[e.Execution] != c:
			faults = append(faults, "its answer was given to "+answered[e.Execution].tag+", too")
		}
		answered[e.Execution] = c
	}
	return faults
}

// story is all that is known of a violation.
func (a *account) story(v violation, logs func(text string) []string) string {
	if v.call == nil {
		return v.what
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s", v.what, v.call)
	for _, e := range a.executed[v.call.tag] {
		fmt.Fprintf(&b, "\n    executed: %s at %s", e.ID, e.At.Format("15:04:05.000000"))
	}
	for _, line := range logs(`"` + v.call.tag + `"`) {
		b.WriteString("\n    gateway: " + line)
	}
	return b.String()
}

// reasons counts failures by the first line of their errors.
func reasons(calls []*call) []string {
	counts := map[string]int{}
	for _, c := range calls {
		if c.err != nil {
			text, _, _ := strings.Cut(c.err.Error(), "\n")
			counts[fmt.Sprintf("%s over %s: %.160s", c.method, c.road, text)]++
		}
	}
	lines := make([]string, 0, len(counts))
	for text, n := range counts {
		lines = append(lines, fmt.Sprintf("%5d × %s", n, text))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return lines
}

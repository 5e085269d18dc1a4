package chaos

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/integration/ledger"
)

// The account must be able to find fault.
func TestAccount(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	one := func(tag, execution string) []entry { return []entry{{Tag: tag, Endpoint: "e1", Execution: execution}} }
	three := func(tag string, numbers ...int) (all []entry) {
		for _, n := range numbers {
			all = append(all, entry{tag, "e1", "e1/1/1", n})
		}
		return all
	}
	done := func(lines ...string) (all []ledger.Execution) {
		for _, line := range lines {
			f := strings.Fields(line)
			all = append(all, ledger.Execution{ID: f[0], Method: f[1], Tag: f[2]})
		}
		return all
	}
	for name, tc := range map[string]struct {
		calls   []*call
		journal []ledger.Execution
		want    []string
	}{
		"all is well": {
			[]*call{
				{tag: "a", method: look, answers: one("a", "e1/1/1")},
				{tag: "b", method: post, answers: one("b", "e1/1/2")},
				{tag: "c", method: post, err: lost},
			},
			done("e1/1/1 Look a", "e1/1/2 Post b"), nil,
		},
		"repeated in order":        {[]*call{{tag: "a", method: look, answers: one("a", "e1/1/2")}}, done("e1/1/1 Look a", "e1/1/2 Look a"), nil},
		"a stream that broke":      {[]*call{{tag: "a", method: follow, answers: three("a", 0, 1), err: lost}}, done("e1/1/1 Follow a"), nil},
		"under a killed gateway":   {[]*call{{tag: "a", method: look, err: lost, excused: true}}, nil, nil},
		"lost":                     {[]*call{{tag: "a", method: look, err: lost}}, nil, []string{"lost, though it may be repeated"}},
		"a stream lost at once":    {[]*call{{tag: "a", method: follow, err: lost}}, nil, []string{"lost, though it may be repeated"}},
		"executed twice":           {[]*call{{tag: "a", method: post, err: lost}}, done("e1/1/1 Post a", "e2/1/1 Post a"), []string{"executed 2 times, and may not be repeated"}},
		"another's answer":         {[]*call{{tag: "a", method: post, answers: one("b", "e1/1/1")}}, done("e1/1/1 Post a"), []string{"it has the answer of b"}},
		"another's execution":      {[]*call{{tag: "a", method: post, answers: one("a", "e1/1/1")}}, done("e1/1/1 Look a"), []string{"its answer is of the execution of Look a"}},
		"another endpoint's":       {[]*call{{tag: "a", method: post, answers: one("a", "e11/1/1")}}, done("e11/1/1 Post a"), []string{"its answer is of another endpoint's execution"}},
		"an answer out of nowhere": {[]*call{{tag: "a", method: post, answers: one("a", "e1/1/1")}}, nil, []string{"its answer is of an execution that no journal has"}},
		"a call out of nowhere":    {nil, done("e1/1/1 Post a"), []string{`"a" was executed, and nobody called it`}},
		"one answer to two calls": {
			[]*call{{tag: "a", method: look, answers: one("a", "e1/1/1")}, {tag: "a", method: look, answers: one("a", "e1/1/1")}},
			done("e1/1/1 Look a"), []string{"its answer was given to a, too"},
		},
		"answered twice": {
			[]*call{{tag: "a", method: look, answers: append(one("a", "e1/1/1"), one("a", "e1/1/2")...)}},
			done("e1/1/1 Look a", "e1/1/2 Look a"),
			[]string{"2 messages in the answer, want 1", "message 1 of its answer is number 0"},
		},
		"a stream out of order": {[]*call{{tag: "a", method: follow, answers: three("a", 0, 2, 1)}}, done("e1/1/1 Follow a"), []string{
			"message 1 of its answer is number 2", "message 2 of its answer is number 1",
		}},
		"a stream that stopped": {[]*call{{tag: "a", method: follow, answers: three("a", 0, 1)}}, done("e1/1/1 Follow a"), []string{"2 messages in the answer, want 3"}},
		"a success without an answer": {
			[]*call{{tag: "a", method: look}}, done("e1/1/1 Look a"), []string{"0 messages in the answer, want 1"},
		},
	} {
		f, broken := newAccount(tc.calls, tc.journal).check()
		var got []string
		for _, v := range broken {
			got = append(got, v.what)
		}
		// Where nothing can be lost, there is no share of it.
		if f.repeatable == 0 && !slices.Equal(got, tc.want) || f.repeatable > 0 && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// One in ten thousand may be lost, and not two.
func TestAccountOfLostCalls(t *testing.T) {
	t.Parallel()
	for lost, want := range map[int]int{0: 0, 1: 0, 2: 2} {
		var calls []*call
		var journal []ledger.Execution
		for i := range 10000 {
			tag, id := strconv.Itoa(i), "e1/1/"+strconv.Itoa(i)
			c := &call{tag: tag, method: look, answers: []entry{{Tag: tag, Endpoint: "e1", Execution: id}}}
			if i < lost {
				c.answers, c.err = nil, errors.New("lost")
			}
			calls, journal = append(calls, c), append(journal, ledger.Execution{ID: id, Method: "Look", Tag: tag})
		}
		if f, broken := newAccount(calls, journal).check(); len(broken) != want || f.lost != lost {
			t.Errorf("%d lost: %v, %d violations, want %d", lost, f, len(broken), want)
		}
	}
}

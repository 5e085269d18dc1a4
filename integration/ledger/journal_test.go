package ledger

import (
	"reflect"
	"testing"
	"time"
)

func TestParseJournal(t *testing.T) {
	t.Parallel()
	got, err := parseJournal([]byte("1700000000000001\te1/7/1\tLook\ta\n1700000000000002\te1/7/2\tPost\tb c\n"))
	want := []Execution{
		{time.UnixMicro(1700000000000001), "e1/7/1", "Look", "a"},
		{time.UnixMicro(1700000000000002), "e1/7/2", "Post", "b c"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	for name, text := range map[string]string{
		"a line without an end": "1700000000000001\te1/7/1\tLook\ta",
		"a field too few":       "1700000000000001\te1/7/1\tLook\n",
		"no time":               "now\te1/7/1\tLook\ta\n",
	} {
		if _, err := parseJournal([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

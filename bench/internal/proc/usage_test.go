package proc

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 4242 4242 0 -1 4194560 1200 0 3 0 731 269 5 7 20 0 9 0 123456 1270972416 5120 18446744073709551615 1 1 0"
	want := Usage{User: 7310 * time.Millisecond, System: 2690 * time.Millisecond, Resident: 5120 * 4096}
	tests := map[string]struct {
		text  string
		want  Usage
		fault string
	}{
		"plain":               {text: "4242 (gateway)" + rest, want: want},
		"newline":             {text: "4242 (gateway)" + rest + "\n", want: want},
		"space in the name":   {text: "4242 (my gateway)" + rest, want: want},
		"parenthesis in name": {text: "4242 (a) S 1 (b)" + rest, want: want},
		"empty":               {text: "", fault: "no command name"},
		"no name":             {text: "4242 gateway S 1", fault: "no command name"},
		"cut off":             {text: "4242 (gateway) S 1 4242", fault: "3 fields after the command name"},
		"not a number":        {text: "4242 (gateway)" + strings.Replace(rest, "731", "x", 1), fault: "field 14"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.text), 4096)
			if tc.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fault) {
					t.Fatalf("error %v, want one with %q", err, tc.fault)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestReadUsageOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	u, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.Resident == 0 || u.CPU() < 0 {
		t.Errorf("implausible: %+v", u)
	}
}

func TestUsageSince(t *testing.T) {
	early := Usage{User: 100 * time.Millisecond, System: 40 * time.Millisecond, Resident: 10}
	late := Usage{User: 250 * time.Millisecond, System: 50 * time.Millisecond, Resident: 30}
	got := late.Since(early)
	if want := (Usage{User: 150 * time.Millisecond, System: 10 * time.Millisecond, Resident: 30}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.CPU() != 160*time.Millisecond {
		t.Errorf("CPU is %v, want 160ms", got.CPU())
	}
}

package report

import (
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	tests := []struct {
		values []float64
		want   Spread[float64]
	}{
		{[]float64{3}, Spread[float64]{3, 3, 3}},
		{[]float64{3, 1, 2}, Spread[float64]{2, 1, 3}},
		{[]float64{4, 1, 3, 2}, Spread[float64]{2, 1, 4}}, // the lower one in the middle
	}
	for _, tc := range tests {
		if got := spreadOf(tc.values); got != tc.want {
			t.Errorf("spreadOf(%v) = %v, want %v", tc.values, got, tc.want)
		}
	}
}

// rounds makes rounds of a thousand requests with these costs, a quarter of each in the system.
func rounds(micros ...int) []Round {
	var made []Round
	for _, m := range micros {
		cpu := time.Duration(m) * time.Millisecond
		made = append(made, Round{
			Requests: 1000, Elapsed: 500 * time.Millisecond,
			User: cpu * 3 / 4, System: cpu / 4,
			P50: 1500 * time.Microsecond, P99: 4 * time.Millisecond,
			Resident: int64(m) << 20,
		})
	}
	return made
}

func TestRatioComparesRoundsThatRanSideBySide(t *testing.T) {
	c := Case{Subjects: []Subject{
		{Name: "it", Rounds: rounds(60, 240, 66)},
		{Name: "floor", Rounds: rounds(50, 200, 60)}, // the second round was slow for both
		{Name: "idle"},
		{Name: "free", Rounds: rounds(0, 0, 0)},
	}}
	got, ok := c.Ratio("it", "floor")
	if want := (Spread[float64]{1.2, 1.1, 1.2}); !ok || got != want {
		t.Errorf("got %v, %v; want %v", got, ok, want)
	}
	for _, other := range []string{"nobody", "idle", "free"} {
		if got, ok := c.Ratio("it", other); ok {
			t.Errorf("ratio to %s is %v, want none", other, got)
		}
	}
}

func TestRound(t *testing.T) {
	r := rounds(80)[0]
	if r.CPU() != 80*time.Microsecond || r.Rate() != 2000 {
		t.Errorf("%v a request at %v a second; want 80µs at 2000", r.CPU(), r.Rate())
	}
	if (Round{User: time.Second}).CPU() != 0 {
		t.Error("a round without requests has a cost for each")
	}
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	err := WriteTable(&b, []Case{{Name: "get", Subjects: []Subject{
		{Name: "rpcgate", Rounds: rounds(60, 66, 64)},
		{Name: "floor", Rounds: rounds(50, 60, 32)},
		{Name: "not measured"},
	}}}, []Comparison{{Header: "÷ floor", Subject: "floor"}, {Header: "÷ other", Subject: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
| case | subject |   CPU µs/request | user | system |          ÷ floor | ÷ other | requests/s | p50 ms | p99 ms | RSS MiB |
|------|---------|-----------------:|-----:|-------:|-----------------:|--------:|-----------:|-------:|-------:|--------:|
| get  | rpcgate | 64.0 (60.0–66.0) | 48.0 |   16.0 | 1.20 (1.10–2.00) |         |       2000 |   1.50 |   4.00 |      66 |
| get  | floor   | 50.0 (32.0–60.0) | 37.5 |   12.5 |                  |         |       2000 |   1.50 |   4.00 |      60 |
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

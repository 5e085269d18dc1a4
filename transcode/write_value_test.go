package transcode

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestAppendFloat compares with encoding/json, which writes numbers as
// protojson does.
func TestAppendFloat(t *testing.T) {
	check := func(v float64) {
		t.Helper()
		if want, err := json.Marshal(v); err == nil && string(appendFloat(nil, v, 64)) != string(want) {
			t.Fatalf("%x: got %s, want %s", v, appendFloat(nil, v, 64), want)
		}
		f := float32(v)
		if want, err := json.Marshal(f); err == nil && string(appendFloat(nil, float64(f), 32)) != string(want) {
			t.Fatalf("%x: got %s, want %s", f, appendFloat(nil, float64(f), 32), want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range []float64{0, 1, 0.1, 0.5, 1e-6, 1e-7, 9.999999e8, 1e9, 1e9 + 0.5, 999999999.999999, 0.3, 0.1 + 0.2, 1 << 24, 1<<24 + 1, 1 << 53, 1<<53 + 2, 1e15, 1e21, 1e22, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		for _, v := range []float64{v, -v, math.Nextafter(v, math.Inf(1)), math.Nextafter(v, math.Inf(-1)), float64(math.Nextafter32(float32(v), 1e38))} {
			check(v)
		}
	}
	for range 30_000 {
		check(math.Float64frombits(r.Uint64()))
		check(float64(r.Int64()>>r.IntN(64)) / math.Pow10(r.IntN(12)))
		check((r.Float64() - 0.5) * math.Pow10(r.IntN(20)))
		v, err := strconv.ParseFloat(strconv.FormatFloat(r.Float64()*math.Pow10(r.IntN(10)), 'f', r.IntN(9), 64), 64)
		if err != nil {
			t.Fatal(err)
		}
		check(v)
		check(math.Nextafter(v, 0))
	}
}

package main

import (
	"math"
	"testing"
)

func TestBallastSize(t *testing.T) {
	for _, tc := range []struct {
		limit int64
		want  int
	}{
		{math.MaxInt64, 4 << 20},
		{512 << 20, 4 << 20},
		{64 << 20, 2 << 20}, // an eighth of the limit is 8 MiB, of which a ballast of 2 MiB makes GOGC 400
		{0, 0},
	} {
		if got := ballastSize(tc.limit); got != tc.want {
			t.Errorf("ballast for a limit of %d is %d bytes, want %d", tc.limit, got, tc.want)
		}
	}
}

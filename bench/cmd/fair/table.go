package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// round is one round of a kind.
type round struct {
	alone, beside, flooder outcome
}

// success is the share of calls that were served.
func (o outcome) success() float64 { return float64(o.Served) / max(1, float64(o.Begun)) }

func (r round) ratio() float64 { return float64(r.beside.P99) / max(1, float64(r.alone.P99)) }

func header(o options) string {
	return fmt.Sprintf("%d rounds of %v alone and %v beside a flooder at %d times its share; medians, and (least–most) of the rounds.\n\n",
		o.rounds, o.duration, o.duration, o.factor) +
		"| kind | success | p50 alone ms | p50 beside | p99 alone | p99 beside | p99 ratio | flooder: asked/s | served/s | refused/s |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
}

func row(k kind, rounds []round) string {
	cells := []string{
		k.name,
		spread(rounds, func(r round) float64 { return 100 * r.beside.success() }, "%.2f") + " %",
		spread(rounds, func(r round) float64 { return millis(r.alone.P50) }, "%.1f"),
		spread(rounds, func(r round) float64 { return millis(r.beside.P50) }, "%.1f"),
		spread(rounds, func(r round) float64 { return millis(r.alone.P99) }, "%.1f"),
		spread(rounds, func(r round) float64 { return millis(r.beside.P99) }, "%.1f"),
		spread(rounds, round.ratio, "%.2f"),
		spread(rounds, func(r round) float64 { return r.flooder.a(r.flooder.Begun) }, "%.0f"),
		spread(rounds, func(r round) float64 { return r.flooder.a(r.flooder.Served) }, "%.0f"),
		spread(rounds, func(r round) float64 { return r.flooder.a(r.flooder.Refused) }, "%.0f"),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// a is n for each second.
func (o outcome) a(n int) float64 { return float64(n) / max(1, float64(o.Seconds)) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread is the median and the range of a figure.
func spread(rounds []round, figure func(round) float64, format string) string {
	var all []float64
	for _, r := range rounds {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	text := fmt.Sprintf(format, all[(len(all)-1)/2])
	if len(all) > 1 {
		text += fmt.Sprintf(" ("+format+"–"+format+")", all[0], all[len(all)-1])
	}
	return text
}

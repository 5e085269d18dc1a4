package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rpcgate/rpcgate/bench/internal/load"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
	"github.com/rpcgate/rpcgate/bench/internal/report"
)

// measure runs the rounds interleaved: in each round every subject of every
// case has its turn, so that a machine that is slower for a while is slower for
// all of them. Who goes first changes from round to round.
func measure(ctx context.Context, cases []benchCase, o options, progress *log.Logger) ([]report.Case, error) {
	measured := make([]report.Case, len(cases))
	for i, c := range cases {
		measured[i].Name = c.name
		for _, s := range c.subjects {
			measured[i].Subjects = append(measured[i].Subjects, report.Subject{Name: s.name})
		}
	}
	for n := range o.rounds {
		for i, c := range cases {
			for k := range c.subjects {
				turn := (n + k) % len(c.subjects)
				s := c.subjects[turn]
				r, err := round(ctx, c, s, o)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				measured[i].Subjects[turn].Rounds = append(measured[i].Subjects[turn].Rounds, r)
				progress.Printf("round %d/%d  %-9s  %-16s  %7.0f requests/s  %6.1f µs/request",
					n+1, o.rounds, c.name, s.name, r.Rate(), float64(r.CPU().Nanoseconds())/1e3)
			}
		}
	}
	return measured, nil
}

// round measures one subject once.
func round(ctx context.Context, c benchCase, s subject, o options) (report.Round, error) {
	var readings []proc.Usage
	result, err := drive(ctx, c, s, load.Plan{Warmup: o.warmup, Measure: o.duration, Mark: func() error {
		u, err := s.process.Usage()
		readings = append(readings, u)
		return err
	}})
	if err != nil {
		return report.Round{}, err
	}
	used := readings[1].Since(readings[0])
	return report.Round{
		Requests: result.Requests, Elapsed: result.Elapsed,
		User: used.User, System: used.System,
		P50: result.P50, P99: result.P99,
		Resident: used.Resident,
	}, nil
}

// drive puts load on a subject, over connections of this round alone.
func drive(ctx context.Context, c benchCase, s subject, p load.Plan) (result load.Result, err error) {
	callers, err := c.dial(ctx, s)
	defer func() {
		for _, caller := range callers {
			err = errors.Join(err, caller.Close())
		}
	}()
	if err != nil {
		return load.Result{}, err
	}
	return load.Run(ctx, callers, p)
}

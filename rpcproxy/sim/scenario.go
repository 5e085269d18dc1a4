package sim

import "time"

// endpoint is one that calls come to.
type endpoint struct {
	workers  int     // how many calls it serves at once
	slowness float64 // how much longer than others it takes for one
	fails    bool    // it answers with errors, at once
	away     bool    // it restarts

	busy    int
	queue   []*call
	offered int // calls that came to it
	conns   int // gateways that call it
}

// Scenario is what is the matter with the endpoints.
type Scenario struct {
	Name string
	// How many of a hundred are slow, by how much, and how many fail all calls.
	SlowPercent, FailingPercent int
	Slowness                    float64
	// Every second one does twice the work, and says so by its weight.
	Mixed bool
	// All restart, some at a time.
	Rolling bool
}

// Scenarios are those of the table.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "all well"},
		{Name: "half have twice the capacity", Mixed: true},
		{Name: "10 % are 5 times slower", SlowPercent: 10, Slowness: 5},
		{Name: "5 % fail all calls", FailingPercent: 5},
		{Name: "rolling restart, 5 % at a time", Rolling: true},
	}
}

func (s Scenario) endpoint(i int) endpoint {
	e := endpoint{workers: workers, slowness: 1}
	if s.Mixed && i%2 == 1 {
		e.workers *= 2
	}
	// Spread over the list, and not one neighbourhood of it.
	place := i * 37 % 100
	switch {
	case place < s.SlowPercent:
		e.slowness = s.Slowness
	case place >= 100-s.FailingPercent:
		e.fails = true
	}
	return e
}

// batch is some endpoints that restart together.
type batch struct {
	first, end  int
	leave, back time.Duration
}

// restarts go through all endpoints between the warm-up and the end, each batch
// away for a tenth less than it takes until the next one.
func (s Scenario) restarts(cfg Config) []batch {
	if !s.Rolling {
		return nil
	}
	const batches = 20
	pause := (cfg.Duration - cfg.Warmup) / batches
	all := make([]batch, 0, batches)
	for i := range batches {
		leave := cfg.Warmup + time.Duration(i)*pause
		all = append(all, batch{
			first: i * cfg.Endpoints / batches, end: (i + 1) * cfg.Endpoints / batches,
			leave: leave, back: leave + pause*9/10,
		})
	}
	return all
}

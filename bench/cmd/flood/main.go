// Command flood offers calls to a server over HTTP/2 in clear text at a rate of
// its own, whatever becomes of them (an open loop): callers who are many, and do
// not know of each other. Each call is given up when its patience is over, as
// callers do. It prints a line each second and one for all: calls begun, served
// in time, refused and late, and the latencies of those that were served.
//
//	flood -target 127.0.0.1:8080 -rate 3000 -patience 2s -path /v1/users/u-1
//
// What shedding is worth is only to be seen where the server has processors of
// its own: in a cgroup with a quota, or by taskset, and flood elsewhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

func main() {
	var p plan
	flag.StringVar(&p.target, "target", "127.0.0.1:8080", "host:port of the server")
	flag.StringVar(&p.path, "path", "/", "the path to GET; or, with -grpc, the method to call")
	flag.StringVar(&p.text, "grpc", "", "call by gRPC, with this text in field 1 of the request")
	flag.IntVar(&p.conns, "conns", 8, "connections")
	flag.Float64Var(&p.rate, "rate", 1000, "calls a second, over all connections")
	flag.DurationVar(&p.patience, "patience", 2*time.Second, "how long a caller waits")
	flag.DurationVar(&p.length, "for", 10*time.Second, "how long")
	flag.DurationVar(&p.skip, "skip", 2*time.Second, "how much of the beginning is not in the line for all")
	flag.Parse()
	if err := run(context.Background(), p); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

type plan struct {
	target, path, text     string
	conns                  int
	rate                   float64
	patience, length, skip time.Duration
}

func run(ctx context.Context, p plan) error {
	t := &tally{begin: time.Now(), seconds: make([]second, int(p.length/time.Second)+1)}
	var all sync.WaitGroup
	ended := make(chan error, 2*p.conns)
	for i := range p.conns {
		c, err := dial(ctx, p, t)
		if err != nil {
			return err
		}
		all.Go(func() { ended <- c.read() })
		all.Go(func() { ended <- c.offer(i) })
	}
	all.Wait()
	close(ended)
	t.print(os.Stdout, int(p.skip/time.Second))
	var failed error
	for err := range ended {
		failed = errors.Join(failed, err)
	}
	return failed
}

// second is what became of the calls that were to begin in one second.
type second struct {
	begun, served, refused, late, failed int
	took                                 []time.Duration // of those that were served
}

func (s *second) add(other second) {
	s.begun += other.begun
	s.served += other.served
	s.refused += other.refused
	s.late += other.late
	s.failed += other.failed
	s.took = append(s.took, other.took...)
}

func (s *second) print(w io.Writer, name string) {
	slices.Sort(s.took)
	quantile := func(q float64) time.Duration {
		if len(s.took) == 0 {
			return 0
		}
		return s.took[min(len(s.took)-1, int(q*float64(len(s.took))))].Round(100 * time.Microsecond)
	}
	_, _ = fmt.Fprintf(w, "%-5s begun %6d  served %6d  refused %6d  late %6d  failed %6d  p50 %8v  p99 %8v\n",
		name, s.begun, s.served, s.refused, s.late, s.failed, quantile(0.5), quantile(0.99))
}

// Command fair measures what a well-behaved app notices of one that floods. For
// each kind of load the good app makes its calls alone, and then beside a flooder
// that asks for 50 times its share of what is scarce. It prints how many of the
// good app's calls succeed, how long they take, and the ratio to how long they
// took alone.
//
//	go run ./cmd/fair
//	go run ./cmd/fair -kinds "slow backend,big bodies" -rounds 3 -duration 5s
//
// The gateway, as built from this checkout, has a processor of its own
// (GOMAXPROCS=1, by taskset). The backend, redis-server and the callers, each a
// process of its own, have the others; the flooder's is the least urgent one, so
// that the good app's clock is right. Linux, taskset and redis-server are needed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/flood"
)

// options are the flags.
type options struct {
	kinds    string
	rounds   int
	duration time.Duration
	factor   int
	gateway  string
	nice     int
	realtime bool
	profile  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string) int {
	progress := log.New(os.Stderr, "fair: ", 0)
	if len(args) == 1 && args[0] == callers {
		if err := call(ctx, os.Stdin, os.Stdout); err != nil {
			progress.Print(err)
			return 1
		}
		return 0
	}
	var o options
	flags := flag.NewFlagSet("fair", flag.ContinueOnError)
	flags.StringVar(&o.kinds, "kinds", "", "which kinds of load, with commas between them; empty: all")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each kind")
	flags.DurationVar(&o.duration, "duration", 8*time.Second, "how long each half of a round is measured")
	flags.IntVar(&o.factor, "factor", 50, "how many times its share the flooder asks for")
	flags.StringVar(&o.gateway, "gateway", "", "a gateway that is built already; empty: this checkout's is built")
	flags.IntVar(&o.nice, "nice", 0, "the niceness of gateway, backend and the good app; below 0, where that is allowed, others on the machine disturb less")
	flags.BoolVar(&o.realtime, "realtime", false, "have gateway, backend and the good app run before all else on the machine (by chrt, as root): for machines that others use, too")
	flags.StringVar(&o.profile, "profile", "", "a folder for profiles and metrics of the gateway under the flood")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.rounds < 1 || o.factor < 1 || o.duration < time.Second:
		progress.Print("-rounds and -factor must be at least 1, -duration at least 1s, and there are no arguments")
		return 2
	}
	if err := run(ctx, o, os.Stdout, progress); err != nil {
		progress.Print(err)
		return 1
	}
	return 0
}

// callers is the argument with which the command is one app's callers: it reads a
// plan, and writes what became of it.
const callers = "callers"

// outcome is what a process of callers tells.
type outcome struct {
	Begun, Served, Refused, Late, Failed int
	Seconds                              int
	P50, P99                             time.Duration
	Fault                                string
}

func call(ctx context.Context, in io.Reader, out io.Writer) error {
	var p flood.Plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return err
	}
	t, err := flood.Run(ctx, p)
	if t == nil {
		return err
	}
	sum, seconds := t.Sum()
	o := outcome{
		Begun: sum.Begun, Served: sum.Served, Refused: sum.Refused, Late: sum.Late, Failed: sum.Failed,
		Seconds: seconds, P50: sum.Quantile(0.5), P99: sum.Quantile(0.99),
	}
	if err != nil {
		o.Fault, _, _ = strings.Cut(err.Error(), "\n")
	}
	return json.NewEncoder(out).Encode(o)
}

func run(ctx context.Context, o options, stdout io.Writer, progress *log.Logger) (err error) {
	all, err := kinds(o.factor)
	if err != nil {
		return err
	}
	chosen, err := choose(all, o.kinds)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rpcgate-fair-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancel(ctx)
	s := &stage{ctx: ctx, dir: dir, options: o}
	defer s.wait() // before the folder is removed
	defer cancel()
	progress.Print("building the gateway and its backend")
	if err := s.start(); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, header(o)); err != nil {
		return err
	}
	for _, k := range chosen {
		progress.Print(k.name)
		rounds, err := s.measure(k, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		if _, err := io.WriteString(stdout, row(k, rounds)); err != nil {
			return err
		}
	}
	return nil
}

func choose(all []kind, names string) ([]kind, error) {
	if names == "" {
		return all, nil
	}
	var chosen []kind
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, k := range all {
			if k.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, k), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no kind %q", name)
		}
	}
	return chosen, nil
}

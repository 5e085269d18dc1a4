// Command bench measures what a request costs at the gateway, in CPU time of its
// process, side by side with programs that do less (the floors, proxies) or the
// same (generated grpc-gateway code, vanguard, go-zero's gateway). Everything runs
// on loopback, each in a process of its own: a backend, a redis-server, the
// gateway as built from this checkout, its peers. docs/performance.md says how to
// read the table.
//
//	go run ./cmd/bench -rounds 5 -duration 3s
//	go run ./cmd/bench -cases grpc -profile /tmp/profiles
//	go run ./cmd/bench -scale 10000
//
// It needs Linux (/proc) and redis-server; nginx and haproxy are left out where
// they are not installed, and go-zero where it cannot be built.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/bench/internal/report"
)

// options are the flags.
type options struct {
	rounds      int
	duration    time.Duration
	warmup      time.Duration
	concurrency int
	grpcConns   int
	procs       int
	cases       []string
	profileDir  string
	gateway     string
	also        []string
	scale       int // credentials; 0: the cases are run
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	progress := log.New(stderr, "bench: ", 0)
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		progress.Print(err)
		return 2
	}
	if err := run(ctx, o, stdout, progress); err != nil {
		progress.Print(err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var names string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each subject in each case")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "how long a round is measured")
	flags.DurationVar(&o.warmup, "warmup", time.Second, "how long a round runs before it is measured")
	flags.IntVar(&o.concurrency, "concurrency", 16, "callers at once, each waiting for its answer; over HTTP each has its connection")
	flags.IntVar(&o.grpcConns, "grpc-conns", 4, "connections that the gRPC callers share")
	flags.IntVar(&o.procs, "procs", 2, "GOMAXPROCS of every process")
	flags.StringVar(&names, "cases", strings.Join(caseNames(), ","), "which cases to run")
	flags.StringVar(&o.profileDir, "profile", "", "a folder to save CPU and allocation profiles of every subject in, from one more round each")
	flags.StringVar(&o.gateway, "gateway", "", "a gateway that is built already; empty: this checkout's is built")
	flags.IntVar(&o.scale, "scale", 0, "in place of the cases, measure what this many credentials cost, say 10000")
	flags.Func("also", "another build of the gateway to measure beside it, named by its file; may be repeated", func(file string) error {
		o.also = append(o.also, file)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.cases = strings.Split(names, ",")
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1 || o.concurrency < 1 || o.grpcConns < 1 || o.procs < 1:
		return o, errors.New("-rounds, -concurrency, -grpc-conns and -procs must be at least 1")
	case o.duration < 100*time.Millisecond || o.warmup < 0:
		return o, errors.New("-duration must be at least 100ms, and -warmup not negative")
	}
	if o.scale != 0 && o.scale < 100 {
		return o, errors.New("-scale must be at least 100")
	}
	for _, name := range o.cases {
		if !slices.Contains(caseNames(), name) {
			return o, fmt.Errorf("unknown case %q; there are %s", name, strings.Join(caseNames(), ", "))
		}
	}
	return o, nil
}

func run(ctx context.Context, o options, stdout io.Writer, progress *log.Logger) (err error) {
	dir, err := os.MkdirTemp("", "rpcgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	progress.Print("building the gateway and its peers")
	programs, err := buildAll(ctx, dir, o.gateway)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stage{ctx: ctx, dir: dir, procs: o.procs, programs: programs}
	defer s.wait() // before the folder is removed
	defer cancel()
	if o.scale > 0 {
		return runScale(ctx, o.scale, s, stdout, progress)
	}
	if err := s.start(o, progress); err != nil {
		return err
	}
	chosen, err := casesOf(s, o)
	if err != nil {
		return err
	}
	measured, err := measure(ctx, chosen, o, progress)
	if err != nil {
		return err
	}
	if err := writeReport(stdout, o, s, measured); err != nil {
		return err
	}
	if o.profileDir != "" {
		return profile(ctx, chosen, o, progress)
	}
	return nil
}

func writeReport(w io.Writer, o options, s *stage, measured []report.Case) error {
	if _, err := io.WriteString(w, header(o, s)); err != nil {
		return err
	}
	err := report.WriteTable(w, measured, []report.Comparison{
		{Header: "÷ floor", Subject: floor},
		{Header: "÷ grpc-gateway", Subject: grpcGateway},
		{Header: "÷ nginx", Subject: nginx},
		{Header: "÷ vanguard", Subject: peers.Vanguard},
		{Header: "÷ go-zero", Subject: goZero},
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n"+verdicts(measured))
	return err
}

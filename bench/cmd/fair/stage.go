package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/flood"
	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
)

const (
	rootModule   = "github.com/rpcgate/rpcgate"
	startTimeout = 20 * time.Second
	goodApp      = "good"
	floodingApp  = "flooder"
	patience     = 2 * time.Second
)

// stage is the processes of a run. They end with its context.
type stage struct {
	ctx     context.Context // the run's: a stage lives no longer than the function that makes it
	dir     string
	options options

	root          string // the main module's folder
	gateway, self string // programs
	redis         string
	backend       string
	tokens        map[string]string
	running       []*proc.Process
	started       int
}

// wait waits until every process has ended; the context must have.
func (s *stage) wait() {
	for _, p := range s.running {
		p.Wait()
	}
}

// where says which processors a process has: the gateway the first, all others the
// rest.
func where(gateway bool) string {
	n := runtime.NumCPU()
	switch {
	case gateway || n == 1:
		return "0"
	case n == 2:
		return "1"
	default:
		return fmt.Sprintf("1-%d", n-1)
	}
}

// placed is a command line that runs a program where it belongs.
func (s *stage) placed(gateway bool, program string, args ...string) []string {
	how := []string{"-c", where(gateway), "nice", "-n", strconv.Itoa(s.options.nice), program}
	if s.options.realtime {
		how = []string{"-c", where(gateway), "chrt", "-r", "1", program}
	}
	return append(how, args...)
}

// beside is the command line of the flooder, who is the least urgent.
func (s *stage) beside(program string, args ...string) []string {
	return append([]string{"-c", where(false), "nice", "-n", strconv.Itoa(max(0, s.options.nice) + 5), program}, args...)
}

func (s *stage) launch(ctx context.Context, name string, args []string) (*proc.Process, error) {
	procs := "GOMAXPROCS=" + strconv.Itoa(max(1, runtime.NumCPU()-1))
	if name == "gateway" {
		procs = "GOMAXPROCS=1"
	}
	s.started++
	p, err := proc.Start(ctx, proc.Spec{
		Name: fmt.Sprintf("%s-%d", name, s.started), Path: "taskset", Args: args, Dir: s.dir, Env: []string{procs},
	})
	if err == nil {
		s.running = append(s.running, p)
	}
	return p, err
}

func (s *stage) start() error {
	var err error
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if s.root, err = proc.Output(s.ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", rootModule); err != nil {
		return fmt.Errorf("looking for the main module (run this inside bench/): %w", err)
	}
	if s.gateway = s.options.gateway; s.gateway == "" {
		s.gateway = filepath.Join(s.dir, "gateway")
		if _, err := proc.Output(s.ctx, s.root, "go", "build", "-trimpath", "-o", s.gateway, "./cmd/gateway"); err != nil {
			return err
		}
	}
	peer := filepath.Join(s.dir, "peer")
	if _, err := proc.Output(s.ctx, "", "go", "build", "-o", peer, "./cmd/peer"); err != nil {
		return err
	}
	if err := s.startRedis(); err != nil {
		return err
	}
	if s.backend, err = proc.FreeAddress(s.ctx); err != nil {
		return err
	}
	p, err := s.launch(s.ctx, "backend", s.placed(false, peer, "-kind", peers.Load, "-listen", s.backend))
	if err != nil {
		return err
	}
	return p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, s.backend) })
}

func (s *stage) startRedis() error {
	var err error
	if s.redis, err = proc.FreeAddress(s.ctx); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.redis)
	if err != nil {
		return err
	}
	p, err := s.launch(s.ctx, "redis-server", s.placed(false, "redis-server",
		"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", s.dir))
	if err != nil {
		return err
	}
	if err := p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, s.redis) }); err != nil {
		return err
	}
	s.tokens = map[string]string{}
	for _, app := range []string{goodApp, floodingApp} {
		if s.tokens[app], err = proc.Output(s.ctx, "", s.gateway, "token", "issue", "--app", app, "--redis", s.redis); err != nil {
			return fmt.Errorf("issuing a token: %w", err)
		}
	}
	return nil
}

// measure is the rounds of one kind, each before a gateway of its own.
func (s *stage) measure(k kind, progress *log.Logger) ([]round, error) {
	var rounds []round
	for range s.options.rounds {
		r, err := s.round(k, progress)
		if err != nil {
			return nil, err
		}
		progress.Printf("alone %+v\n      beside %+v\n      flooder %+v", r.alone, r.beside, r.flooder)
		rounds = append(rounds, r)
	}
	return rounds, nil
}

func (s *stage) round(k kind, progress *log.Logger) (r round, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	gateway, target, admin, err := s.startGateway(ctx, k)
	defer func() {
		cancel()
		if gateway != nil {
			gateway.Wait()
		}
	}()
	if err != nil {
		return r, err
	}
	share := float64(k.share)
	if k.share == 0 {
		p := s.plan(k.flood, target, floodingApp, 4)
		p.Open, p.Length = 16, 3*time.Second
		served, err := s.call(ctx, p, true)
		if err != nil {
			return r, err
		}
		share = served.a(served.Served) / 2
		progress.Printf("a share is %.0f calls a second", share)
	}
	good := s.plan(k.good, target, goodApp, max(2, k.goodConns))
	if good.Rate = k.rate; good.Rate == 0 {
		good.Rate = share / 5
	}
	if r.alone, err = s.call(ctx, good, false); err != nil {
		return r, err
	}
	flooder := s.plan(k.flood, target, floodingApp, k.conns)
	flooder.Unread = k.unread
	flooder.Length += 2 * time.Second // around the good app's
	if demand := share * float64(s.options.factor); k.share == 0 {
		flooder.Rate = demand
	} else {
		flooder.Open = int(demand)
	}
	type ended struct {
		outcome
		err error
	}
	flooded := make(chan ended, 1)
	go func() {
		o, err := s.call(ctx, flooder, true)
		flooded <- ended{o, err}
	}()
	profiled := s.profile(ctx, k, admin)
	begun := time.NewTimer(time.Second) // the flood is at its height by then
	defer begun.Stop()
	select {
	case <-begun.C:
	case <-ctx.Done():
	}
	r.beside, err = s.call(ctx, good, false)
	f := <-flooded
	r.flooder = f.outcome
	<-profiled
	if err == nil {
		err = f.err
	}
	return r, err
}

func (s *stage) plan(r request, target, app string, conns int) flood.Plan {
	p := r.plan(target, app, s.tokens[app])
	p.Conns, p.Patience, p.Skip = conns, patience, time.Second
	p.Length = s.options.duration + p.Skip
	return p
}

// call has a process of its own make calls.
func (s *stage) call(ctx context.Context, p flood.Plan, floods bool) (o outcome, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return o, err
	}
	how := s.placed(false, s.self, callers)
	if floods {
		how = s.beside(s.self, callers)
	}
	cmd := exec.CommandContext(ctx, "taskset", how...) //nolint:gosec // its own program
	cmd.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = patience
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("callers: %w\n%s", err, stderr.Bytes())
	}
	return o, json.Unmarshal(out, &o)
}

func (s *stage) startGateway(ctx context.Context, k kind) (p *proc.Process, target, admin string, err error) {
	if target, err = proc.FreeAddress(ctx); err != nil {
		return nil, "", "", err
	}
	if admin, err = proc.FreeAddress(ctx); err != nil {
		return nil, "", "", err
	}
	file := filepath.Join(s.dir, "gateway.yaml")
	text := fmt.Sprintf(`http: {address: %q}
grpc: {address: "off"}
admin: {address: %q}
redis: {addresses: [%q]}
shutdown: {delay: 0s, drain_timeout: 2s}
%s
backends:
  - name: load
    endpoints: [%q]
    proto: {files: [fair/fair.proto], import_paths: [%q]}
    stream_timeout: 10m
    %s
`, target, admin, s.redis, k.config, s.backend, filepath.Join(s.root, "bench/proto"), k.backend)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", "", err
	}
	p, err = s.launch(ctx, "gateway", s.placed(true, s.gateway, "serve", "-c", file))
	if err != nil {
		return nil, "", "", err
	}
	return p, target, admin, p.Await(ctx, startTimeout, func(ctx context.Context) error {
		return proc.Get(ctx, "http://"+admin+"/readyz", nil)
	})
}

// profile saves what the gateway does in the next seconds, and then is at.
func (s *stage) profile(ctx context.Context, k kind, admin string) (done chan struct{}) {
	done = make(chan struct{})
	if s.options.profile == "" {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		for _, page := range []struct{ path, name string }{
			{"/debug/pprof/profile?seconds=3", "cpu.pprof"}, {"/debug/pprof/goroutine?debug=1", "goroutines.txt"}, {"/metrics", "metrics.txt"},
		} {
			var b bytes.Buffer
			err := proc.Get(ctx, "http://"+admin+page.path, func(response *http.Response) error {
				_, err := b.ReadFrom(response.Body)
				return err
			})
			if err == nil {
				name := strings.ReplaceAll(k.name, " ", "-") + "." + page.name
				_ = os.WriteFile(filepath.Join(s.options.profile, name), b.Bytes(), 0o600) // what cannot be saved is missed soon
			}
		}
	}()
	return done
}

package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
)

// The subjects' names in the table.
const (
	rpcgate     = "rpcgate"
	floor       = "floor"
	grpcGateway = "grpc-gateway"
)

// startTimeout is how long a process may take until it serves.
const startTimeout = 20 * time.Second

// stage is the processes of a run. They end with its context.
type stage struct {
	ctx      context.Context // the run's: a stage lives no longer than the function that makes it
	dir      string
	procs    int
	programs programs

	running  []*proc.Process
	gateways []subject          // this build first
	peers    map[string]subject // by kind
	missing  map[string]bool    // kinds that are not installed or cannot be built
	app      string
	token    string

	goZeroVersion string // empty: it does not run
}

// subject is a running program that can be measured.
type subject struct {
	name     string
	process  *proc.Process
	http     string // host:port, where it speaks HTTP
	grpc     string // host:port, where it speaks gRPC
	profiles string // host:port of /debug/pprof; empty: it has none
}

// start starts everything that the chosen cases need, other builds of the
// gateway too: it all runs at once, idle while another is measured.
func (s *stage) start(o options, progress *log.Logger) error {
	backend, err := s.startPeer(peers.Backend, "")
	if err != nil {
		return err
	}
	s.peers, s.missing = make(map[string]subject), make(map[string]bool)
	for _, c := range caseSpecs() {
		if !slices.Contains(o.cases, c.name) {
			continue
		}
		for _, kind := range c.peers {
			if err := s.startOnce(kind, backend.grpc, progress); err != nil {
				return err
			}
		}
	}
	redis, err := s.startRedis()
	if err != nil {
		return err
	}
	builds := []build{{rpcgate, s.programs.gateway}}
	for _, file := range o.also {
		builds = append(builds, build{rpcgate + " " + filepath.Base(file), file})
	}
	for i, b := range builds {
		if err := s.startGateway(b, redis, backend.grpc, fmt.Sprintf("gateway-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

// startOnce starts a peer, unless it runs already or is known not to be there.
func (s *stage) startOnce(kind, backend string, progress *log.Logger) error {
	if _, ok := s.peers[kind]; ok || s.missing[kind] {
		return nil
	}
	var peer subject
	var err error
	ok := true
	switch kind {
	case nginx, haproxy:
		peer, ok, err = s.startSystem(kind, backend, progress)
	case goZero:
		peer, ok, err = s.startGoZero(backend, progress)
	default:
		peer, err = s.startPeer(kind, backend)
		if peer.name = kind; kind == peers.JSONFloor || kind == peers.GRPCFloor {
			peer.name = floor
		}
	}
	switch {
	case err != nil:
		return err
	case ok:
		s.peers[kind] = peer
	default:
		s.missing[kind] = true
	}
	return nil
}

// build is a build of the gateway, and its name in the table.
type build struct{ name, file string }

// wait waits until every process has ended; the context must have.
func (s *stage) wait() {
	for _, p := range s.running {
		p.Wait()
	}
}

func (s *stage) startPeer(kind, backend string) (subject, error) {
	addresses, err := s.addresses(2)
	if err != nil {
		return subject{}, err
	}
	listen, profiles := addresses[0], addresses[1]
	p, err := s.launch(kind, s.programs.peer, "-kind", kind, "-listen", listen, "-profiles", profiles, "-backend", backend)
	if err != nil {
		return subject{}, err
	}
	err = p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, listen) })
	return subject{process: p, http: listen, grpc: listen, profiles: profiles}, err
}

// startGateway starts a gateway as anyone would: `gateway serve -c FILE`.
func (s *stage) startGateway(b build, redis, backend, name string) error {
	addresses, err := s.addresses(3)
	if err != nil {
		return err
	}
	httpAddress, grpcAddress, admin := addresses[0], addresses[1], addresses[2]
	file := filepath.Join(s.dir, name+".yaml")
	text := gatewayConfig(httpAddress, grpcAddress, admin, redis, backend, s.programs.root)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	p, err := s.launch(name, b.file, "serve", "-c", file)
	if err != nil {
		return err
	}
	s.gateways = append(s.gateways, subject{name: b.name, process: p, http: httpAddress, grpc: grpcAddress, profiles: admin})
	return p.Await(s.ctx, startTimeout, func(ctx context.Context) error {
		return proc.Get(ctx, "http://"+admin+"/readyz", nil)
	})
}

// gatewayConfig says where everything is and leaves the rest at its defaults:
// authentication, breaker, metrics and the access log are on.
func gatewayConfig(httpAddress, grpcAddress, admin, redis, backend, root string) string {
	return fmt.Sprintf(`http: {address: %q}
grpc: {address: %q}
admin: {address: %q}
redis: {addresses: [%q]}
backends:
  - name: shop
    endpoints: [%q]
    proto: {files: [shop/user.proto, catalog/catalog.proto], import_paths: [%q, %q]}
`, httpAddress, grpcAddress, admin, redis, backend,
		filepath.Join(root, "examples/shop/proto"), filepath.Join(root, "bench/proto"))
}

// startRedis starts a redis-server and issues the run's token in it.
func (s *stage) startRedis() (address string, err error) {
	if address, err = proc.FreeAddress(s.ctx); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	p, err := s.launch("redis-server", "redis-server",
		"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", s.dir)
	if err != nil {
		return "", err
	}
	err = p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, address) })
	if err != nil {
		return "", err
	}
	s.app = "bench"
	s.token, err = proc.Output(s.ctx, "", s.programs.gateway, "token", "issue", "--app", s.app, "--redis", address)
	if err != nil {
		return "", fmt.Errorf("issuing a token: %w", err)
	}
	return address, nil
}

// launch starts a process and has the stage wait for its end.
func (s *stage) launch(name, path string, args ...string) (*proc.Process, error) {
	p, err := proc.Start(s.ctx, proc.Spec{
		Name: name, Path: path, Args: args, Dir: s.dir,
		Env: []string{fmt.Sprintf("GOMAXPROCS=%d", s.procs)},
	})
	if err != nil {
		return nil, err
	}
	s.running = append(s.running, p)
	return p, nil
}

func (s *stage) addresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		var err error
		if addresses[i], err = proc.FreeAddress(s.ctx); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

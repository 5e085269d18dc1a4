package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
	"github.com/rpcgate/rpcgate/config"
)

// tokensPerApp is how many credentials each app has in the scale run.
const tokensPerApp = 10

// scaleEndpoints is how many processes the backend has in the scale run.
const scaleEndpoints = 3

// scaleRun is one way to run the gateway, for which the credentials come anew.
type scaleRun struct {
	name        string
	backend     string // keys of the backend's configuration
	credentials int
	conns       int // that its credentials make, to endpoints
}

// scaleRuns are those for n credentials. The last one has fewer: each of its
// credentials has a connection to each endpoint, and this process's limit of open
// files is the gateway's as well.
func scaleRuns(n int) []scaleRun {
	const oneEach = "balancer: {policy: pick_first}"
	few := n / 5
	return []scaleRun{
		{"credential, pick_first", "pool: {key: credential, max_conns: %d}\n    " + oneEach, n, n},
		{"app, pick_first", "pool: {key: app, max_conns: %d}\n    " + oneEach, n, n / tokensPerApp},
		{"shared", "pool: {key: shared, max_conns: %d}", n, scaleEndpoints},
		{"credential, p2c_ewma", "pool: {key: credential, max_conns: %d}", few, few * scaleEndpoints},
	}
}

// runScale measures what many credentials cost the gateway: their first calls,
// which make connections, the memory of idle ones, and calls over those.
func runScale(ctx context.Context, n int, s *stage, w io.Writer, progress *log.Logger) error {
	var backends []string
	for range scaleEndpoints {
		b, err := s.startPeer(peers.Backend, "")
		if err != nil {
			return err
		}
		backends = append(backends, strconv.Quote(b.grpc))
	}
	store, err := s.startRedis()
	if err != nil {
		return err
	}
	progress.Printf("issuing %d tokens", n)
	callers, err := issueMany(ctx, store, n)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%d credentials of %d apps, one backend of %d processes; %d callers at once; GOMAXPROCS=%d.\n\n%s",
		n, n/tokensPerApp, scaleEndpoints, scaleCallers, s.procs, scaleHeader); err != nil {
		return err
	}
	for i, run := range scaleRuns(n) {
		progress.Printf("scale: %s", run.name)
		row, err := s.scaleOne(run, fmt.Sprintf("scale-%d", i), store, strings.Join(backends, ", "), callers[:run.credentials])
		if err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
		if row.first.why != nil {
			progress.Printf("scale: one call failed with %v", row.first.why)
		}
		if _, err := io.WriteString(w, row.line(run)); err != nil {
			return err
		}
	}
	progress.Print("scale: the pool's own cost")
	text, err := proc.Output(ctx, s.programs.root, "go", "test", "./rpcproxy", "-run", "^$", "-bench", "BenchmarkPool", "-cpu", strconv.Itoa(s.procs))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// scaleOne runs a gateway for one row.
func (s *stage) scaleOne(run scaleRun, name, store, backends string, callers []scaleCaller) (row scaleRow, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	own := &stage{ctx: ctx, dir: s.dir, procs: s.procs, programs: s.programs}
	defer own.wait()
	defer cancel()
	addresses, err := own.addresses(3)
	if err != nil {
		return row, err
	}
	httpAddress, grpcAddress, admin := addresses[0], addresses[1], addresses[2]
	file := filepath.Join(s.dir, name+".yaml")
	text := fmt.Sprintf(`http: {address: %q}
grpc: {address: %q}
admin: {address: %q}
redis: {addresses: [%q]}
auth: {cache: {max_loads: 1024}}
backends:
  - name: shop
    endpoints: [%s]
    timeout: 60s
    proto: {files: [shop/user.proto], import_paths: [%q]}
    %s
`, httpAddress, grpcAddress, admin, store, backends, filepath.Join(s.programs.root, "examples/shop/proto"),
		fmt.Sprintf(run.backend, len(callers)+1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return row, err
	}
	p, err := own.launch(name, s.programs.gateway, "serve", "-c", file)
	if err != nil {
		return row, err
	}
	err = p.Await(ctx, startTimeout, func(ctx context.Context) error { return proc.Get(ctx, "http://"+admin+"/readyz", nil) })
	if err != nil {
		return row, err
	}
	return measureScale(ctx, gatewayProbe{p, admin}, grpcAddress, callers)
}

// issueMany issues the credentials.
func issueMany(ctx context.Context, address string, n int) (_ []scaleCaller, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: address})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	store := tenant.NewStore(rdb, config.Defaults().Auth)
	callers := make([]scaleCaller, n)
	for i := range callers {
		app := fmt.Sprintf("app-%d", i/tokensPerApp)
		issued, err := store.Issue(ctx, tenant.IssueOptions{App: app})
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", i, err)
		}
		callers[i] = scaleCaller{app, issued.Secret}
	}
	return callers, nil
}

// gatewayProbe reads what a gateway holds.
type gatewayProbe struct {
	process *proc.Process
	admin   string
}

// held is what a gateway holds, in bytes.
type held struct {
	resident, heap, stack, goroutines float64
}

// read has garbage collected, and read what is left.
func (g gatewayProbe) read(ctx context.Context) (held, error) {
	for range 2 { // what the first collection finalizes, the second frees
		if err := proc.Get(ctx, "http://"+g.admin+"/debug/pprof/heap?gc=1", drain); err != nil {
			return held{}, err
		}
	}
	u, err := g.process.Usage()
	if err != nil {
		return held{}, err
	}
	h := held{resident: float64(u.Resident)}
	want := map[string]*float64{
		"go_memstats_alloc_bytes": &h.heap, "go_memstats_stack_inuse_bytes": &h.stack, "go_goroutines": &h.goroutines,
	}
	err = proc.Get(ctx, "http://"+g.admin+"/metrics", func(r *http.Response) error {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if to := want[name]; to != nil {
				if *to, err = strconv.ParseFloat(value, 64); err != nil {
					return fmt.Errorf("metric %s: %w", name, err)
				}
				delete(want, name)
			}
		}
		return nil
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("the gateway has no metrics of %d kinds that are read here", len(want))
	}
	return h, err
}

func drain(r *http.Response) error {
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

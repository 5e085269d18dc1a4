package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/rpcgate/rpcgate"

// graph is the whole import graph inside this module, tests apart: a package,
// what it may import, and why it is no more. A package that is not listed fails
// the test, so that its place is thought about when it is made. It goes one
// way: cmd → gateway → routes, auth, rpcproxy, telemetry → their own rooms.
const graph = `
config            <-
                     # a leaf: every room takes its part of it, so that it can know none of them
config/gozero     <-
                     # another gateway's file becomes text for config to read; it needs none of config's types for that
credcache         <-
                     # does not know what it caches; limits and settings come as plain options
auth/scope        <-
                     # patterns of methods and routes, as text: it knows no app, no token, no route table
auth/tenant       <- auth/scope config
                     # records in Redis and what changes them; who presents a credential is not its business
auth              <- auth/scope auth/tenant config credcache
                     # credentials and tokens; who may call is not where it goes
limits/keyed      <-
                     # a table for any keys and values
limits            <- config limits/keyed
                     # pure decisions: which call goes on; it knows no route, no backend, no clock
limits/global     <- auth/tenant config limits
                     # what gateways share by Redis; what is decided of it is limits'
usage             <- auth/tenant config limits/keyed
                     # what apps use, counted; no call is refused for it, so it knows no limit, and of a credential the app alone
limits/load       <-
                     # measures this process; what is made of it is not its business
routes/template   <-
                     # a path grammar is text and slices
transcode/internal/orderpb <-
                     # generated; a message for transcode's benchmarks
transcode         <- config
                     # bytes to bytes; must be replaceable without a caller noticing
routes            <- config routes/template transcode
                     # what goes where is decided without a connection or a credential
openapi           <- config routes routes/template
                     # a document of the table; what serves it is not its business
openapi/page      <-
                     # shows any document; knows nothing of routes
discovery         <- config
                     # addresses; knows nothing of what is called there, so that servers can register with it alone
rpcproxy/balancer <- config rpcproxy/fleet
                     # picks among endpoints; no credential, no route
rpcproxy/breaker  <- config
                     # counts outcomes; any caller can use it
rpcproxy/fleet    <- config
                     # what is known of endpoints, and the choice among them; a simulation runs it without gRPC
rpcproxy/sim      <- config rpcproxy/fleet
                     # a simulation; nothing that serves calls may depend on it
rpcproxy          <- config discovery limits rpcproxy/balancer rpcproxy/breaker rpcproxy/fleet
                     # messages stay bytes: no routes, no transcode; the exchange it pumps is an interface of its own
admin/adminpb     <-
                     # generated
admin             <- admin/adminpb auth auth/tenant config limits usage
                     # what operators do; what serves it, and by which protocol, is not its business
telemetry         <- config limits/keyed
                     # rooms take a Registerer and a Logger, never telemetry
gateway/wire      <-
                     # framing and protocol texts are readers, writers and bytes
gateway           <- auth auth/scope config gateway/wire limits limits/keyed limits/load openapi openapi/page routes rpcproxy rpcproxy/breaker rpcproxy/fleet telemetry transcode usage
                     # the edge: endpoints come in as resolvers from cmd, path templates stay inside routes
cmd/gateway       <- admin admin/adminpb auth auth/tenant config config/gozero discovery examples/shop/shopserver gateway gateway/wire limits/global openapi routes rpcproxy rpcproxy/balancer telemetry usage
                     # wires everything; the shop is there for 'gateway demo'

examples/shop/shoppb     <-
                            # generated
examples/shop/shopserver <- examples/shop/shoppb
                            # an ordinary backend that knows nothing of the gateway
examples/shop            <- config discovery examples/shop/shopserver
                            # registers as any server of a user may

integration/process     <-
                           # these are imported by tests alone
integration/redistest   <- integration/process
                           # see above
integration/etcdtest    <- integration/process integration/toolbuild
                           # see above
integration/toolbuild   <-
                           # see above
integration/testbackend <-
                           # an ordinary backend that knows nothing of the gateway
integration/faultproxy  <-
                           # tests alone: TCP, whatever is in it
integration/ledger      <- integration/gatewaytest integration/process
                           # tests alone: runs ledgerd
integration/ledger/ledgerpb <-
                           # generated
integration/ledger/ledgerd <- config discovery integration/ledger/ledgerpb
                           # a program of tests; registers as any server of a user may
integration/clockstep   <- integration/process
                           # tests alone: the clock of any process
integration/netns       <- integration/process
                           # tests alone: IP, whatever is in it
integration/chaos       <- integration/etcdtest integration/faultproxy integration/gatewaytest integration/ledger integration/ledger/ledgerpb integration/redistest
                           # tests alone: runs all of it
integration/protobufsuite <-
                           # tests alone
integration/protobufsuite/testee <- config transcode
                           # a program of tests: transcode as what protobuf's conformance suite tests
integration/nodetest    <- integration/process
                           # tests alone: clients in JavaScript
integration/conformserver <- integration/process
                           # a program of tests: the gateway as the server of Connect's conformance suite
integration/gatewaytest <- integration/process
                           # runs the gateway as a process: what it links, a user's process would not have
`

// bans are imports from outside this module that a package must not have, each
// with its reason. The import is a path or the beginning of one; '*' stands for
// all packages, less those after 'but'. '!!' bans what a package's imports
// import, too.
const bans = `
config    !! google.golang.org/grpc         # checking a file takes no network stack
config    !! github.com/redis/go-redis      # 〃
config    !! go.etcd.io/etcd                # 〃
config    !! github.com/prometheus          # 〃
credcache !! google.golang.org/grpc         # it does not know what it caches
credcache !  github.com/redis/go-redis      # 〃
credcache !  net/http                       # 〃

gateway   !  github.com/redis/go-redis      # Redis is auth's
gateway   !  go.etcd.io/etcd                # etcd is discovery's
gateway   !  google.golang.org/protobuf/encoding/protojson # JSON is transcode's
gateway   !  google.golang.org/protobuf/types/dynamicpb    # messages stay bytes
gateway/wire ! net/http                     # it serves nothing
routes    !  net                            # it opens no connection; it is given one to ask for descriptors
routes    !  github.com/redis/go-redis      # who may call is auth's
transcode !  net                            # bytes in, bytes out
transcode !  net/http                       # 〃
transcode !  google.golang.org/grpc         # 〃
limits    !! google.golang.org/grpc         # it decides; others serve
limits    !! github.com/prometheus          # 〃
limits    !  net                            # 〃
rpcproxy/fleet !! google.golang.org/grpc   # it decides; others connect
rpcproxy  !  net/http                       # the caller's protocol ends at the gateway
rpcproxy  !  github.com/redis/go-redis      # credentials are verified before
rpcproxy  !  google.golang.org/protobuf/encoding/protojson # messages stay bytes
rpcproxy  !  google.golang.org/protobuf/types/dynamicpb    # 〃
discovery !  github.com/redis/go-redis      # addresses are in etcd
discovery !  k8s.io                         # one GET with a watch needs no client of several times the gateway's own code
discovery !  github.com/hashicorp/consul    # nor does one blocking query; net/http does both
telemetry !  github.com/redis/go-redis      # it observes values it is given
telemetry !  net/http                       # serving /metrics is the gateway's

* !  github.com/alicebob/miniredis   but cmd/gateway  # 'gateway demo' needs no Redis; everything else must meet the real one's client
* !  testing                         but integration/process integration/redistest integration/etcdtest integration/gatewaytest integration/toolbuild integration/testbackend integration/nodetest integration/faultproxy integration/ledger integration/chaos integration/netns integration/clockstep # it adds flags and weight to every binary
* !  math/rand                                        # one global generator that anybody may seed; math/rand/v2 has none
* !  log                                              # rooms are given a *slog.Logger
* !  io/ioutil                                        # deprecated
* !  github.com/golang/protobuf                       # superseded by google.golang.org/protobuf
* !  github.com/prometheus/client_golang/prometheus/promauto # registers globally; rooms are given a Registerer
* !  unsafe                          but admin/adminpb examples/shop/shoppb transcode/internal/orderpb integration/ledger/ledgerpb # generated code alone
* !  plugin                                           # nothing is loaded at run time
`

// listedPackage is what go list tells of a package.
type listedPackage struct {
	ImportPath, Dir, Name              string
	Imports, Deps                      []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// name is the import path inside this module.
func (p *listedPackage) name() string {
	return strings.TrimPrefix(p.ImportPath, modulePath+"/")
}

// listPackages returns the packages of this module.
func listPackages(t *testing.T) []*listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Imports,Deps,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []*listedPackage
	for decode := json.NewDecoder(bytes.NewReader(out)); decode.More(); {
		p := new(listedPackage)
		if err := decode.Decode(p); err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list found no packages")
	}
	return all
}

// node is a line of the graph and its reason.
type node struct {
	imports []string
	reason  string
}

func parseGraph(text string) (map[string]node, error) {
	nodes := make(map[string]node)
	var last string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if reason, ok := strings.CutPrefix(line, "# "); ok {
			n := nodes[last]
			n.reason = reason
			nodes[last] = n
			continue
		}
		if line == "" {
			continue
		}
		name, imports, ok := strings.Cut(line, "<-")
		last = strings.TrimSpace(name)
		if _, twice := nodes[last]; !ok || twice {
			return nil, fmt.Errorf("graph: %q is malformed, or there twice", line)
		}
		nodes[last] = node{imports: strings.Fields(imports)}
	}
	for name, n := range nodes {
		if n.reason == "" {
			return nil, fmt.Errorf("graph: %s has no reason", name)
		}
	}
	return nodes, nil
}

// graphFaults tells which of the package's imports the graph does not have.
func graphFaults(nodes map[string]node, p *listedPackage) []string {
	if len(p.GoFiles) == 0 {
		return nil // tests alone
	}
	n, ok := nodes[p.name()]
	if !ok {
		return []string{p.name() + " is not in the import graph (integration/imports_test.go): give it a place"}
	}
	var faults []string
	for _, path := range p.Imports {
		imported, ours := strings.CutPrefix(path, modulePath+"/")
		if ours && !slices.Contains(n.imports, imported) {
			faults = append(faults, fmt.Sprintf("%s must not import %s: %s", p.name(), imported, n.reason))
		}
	}
	return faults
}

// ban is a line of the bans.
type ban struct {
	importer, imported string
	but                []string
	transitive         bool
	reason             string
}

func parseBans(text string) ([]ban, error) {
	var all []ban
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		rule, reason, ok := strings.Cut(line, "#")
		rule, but, _ := strings.Cut(rule, " but ")
		fields := strings.Fields(rule)
		if !ok || len(fields) != 3 || !strings.HasPrefix(fields[1], "!") {
			return nil, fmt.Errorf("bans: %q is malformed, or has no reason", line)
		}
		b := ban{
			importer: fields[0], imported: fields[2], but: strings.Fields(but),
			transitive: fields[1] == "!!", reason: strings.TrimSpace(reason),
		}
		if b.reason == "〃" {
			b.reason = all[len(all)-1].reason
		}
		all = append(all, b)
	}
	return all, nil
}

// hits reports whether the path is the banned one or lies below it.
func (b *ban) hits(path string) bool {
	return path == b.imported || strings.HasPrefix(path, b.imported+"/") && !b.isStandard()
}

// isStandard: the standard library's packages are banned one by one (net, but
// not net/url).
func (b *ban) isStandard() bool {
	first, _, _ := strings.Cut(b.imported, "/")
	return !strings.Contains(first, ".")
}

// banFaults tells which of the package's imports are banned.
func banFaults(all []ban, p *listedPackage) []string {
	var faults []string
	for _, b := range all {
		if b.importer != "*" && b.importer != p.name() || slices.Contains(b.but, p.name()) {
			continue
		}
		paths := p.Imports
		if b.transitive {
			paths = p.Deps
		}
		for _, path := range paths {
			if b.hits(path) {
				faults = append(faults, fmt.Sprintf("%s must not import %s: %s", p.name(), path, b.reason))
			}
		}
	}
	return faults
}

func parseRules(t *testing.T) (map[string]node, []ban) {
	t.Helper()
	nodes, err := parseGraph(graph)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseBans(bans)
	if err != nil {
		t.Fatal(err)
	}
	return nodes, all
}

func TestImports(t *testing.T) {
	t.Parallel()
	nodes, all := parseRules(t)
	for _, p := range listPackages(t) {
		for _, fault := range append(graphFaults(nodes, p), banFaults(all, p)...) {
			t.Error(fault)
		}
	}
}

// The rules above must be able to fail.
func TestImportRulesBite(t *testing.T) {
	t.Parallel()
	nodes, all := parseRules(t)
	for _, tc := range []struct {
		importer, imported string
		faults             int
	}{
		{"config", "strings", 0},
		{"config", "google.golang.org/grpc/codes", 1},
		{"config", modulePath + "/auth", 1},
		{"auth", modulePath + "/credcache", 0},
		{"credcache", modulePath + "/auth", 1},
		{"rpcproxy", modulePath + "/telemetry", 1},
		{"rpcproxy", "net/http", 1},
		{"transcode", "net", 1},
		{"transcode", "net/url", 0},
		{"gateway", "github.com/redis/go-redis/v9", 1},
		{"gateway", modulePath + "/integration/process", 1},
		{"gateway", "testing", 1},
		{"gateway", "math/rand", 1},
		{"gateway", "math/rand/v2", 0},
		{"cmd/gateway", "github.com/alicebob/miniredis/v2", 0},
		{"auth", "github.com/alicebob/miniredis/v2", 1},
		{"newcomer", "strings", 1},
	} {
		p := &listedPackage{
			ImportPath: modulePath + "/" + tc.importer, GoFiles: []string{"x.go"},
			Imports: []string{tc.imported}, Deps: []string{tc.imported},
		}
		if got := append(graphFaults(nodes, p), banFaults(all, p)...); len(got) != tc.faults {
			t.Errorf("%s importing %s: %q, want %d", tc.importer, tc.imported, got, tc.faults)
		}
	}
}

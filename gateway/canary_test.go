package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// lines gives each line of a log to whoever waits for it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The log tells of canaries that no endpoint matches: those of the routes in
// force, of the backend that a fallback asks among them, and no others.
func TestCanariesThatNoEndpointMatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := `syntax = "proto3"; package shop; service S { rpc Get(X) returns (X); rpc Put(X) returns (X); } message X {}`
	if err := os.WriteFile(filepath.Join(dir, "s.proto"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := routes.CompileProto(t.Context(), config.ProtoSources{Files: []string{"s.proto"}, ImportPaths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	g, _, _ := newTestGateway(nil)
	log := make(lines, 100)
	n := generation{cfg: g.cfg, backends: map[string]*rpcproxy.Backend{}}
	var inputs []routes.Input
	for _, name := range []string{"shop", "spare"} {
		cfg := config.DefaultBackend(name)
		cfg.Endpoints, cfg.Auth = []string{"127.0.0.1:1"}, "none"
		cfg.Canary = []config.Canary{{Match: config.Match{"version": name}, Percent: 5}, {Match: config.Match{"version": name}, Percent: 7}}
		b, err := rpcproxy.New(cfg, rpcproxy.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		g.cfg.Backends = append(g.cfg.Backends, cfg)
		n.backends[name] = b
		inputs = append(inputs, routes.Input{Backend: cfg, Descriptors: files})
	}
	enforce := func(own string) {
		t.Helper()
		g.cfg.Routes = []config.Route{
			{Method: "shop.S/Get", Backend: "shop", Canary: []config.Canary{{Match: config.Match{"version": own}, Percent: 5}}},
			{Method: "shop.S/Put", Backend: "shop", Fallback: &config.Fallback{Backend: "spare"}},
		}
		s, err := g.build(n, nil, inputs)
		if err != nil {
			t.Fatal(err)
		}
		g.enforce(s)
	}
	enforce("own")
	told := map[string]int{}
	read := func(count int) {
		for range count {
			var line string
			select {
			case line = <-log:
			case <-time.After(10 * time.Second):
				t.Fatal("waited in vain for the log")
			}
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "endpoints=1") {
				t.Errorf("the log has %s", line)
			}
			_, match, _ := strings.Cut(line, "match=")
			told[strings.Fields(match)[0]]++
		}
	}
	for _, b := range n.backends {
		b.Endpoints(t.Context()) // has discovery asked
	}
	read(3)
	enforce("another")
	read(1)
	if len(log) > 0 {
		t.Errorf("the log has more: %s", <-log)
	}
	for _, version := range []string{"shop", "spare", "own", "another"} {
		if told[`"version=`+version+`"`] != 1 {
			t.Errorf("told of %v", told)
		}
	}
}

package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// A backend that was down at the start, and lists another's services once it is
// up, gets none of that one's calls.
func TestLateBackendTakesNothingOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := `syntax = "proto3"; package shop; service S { rpc Get(X) returns (X); } message X {}`
	if err := os.WriteFile(filepath.Join(dir, "s.proto"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := routes.CompileProto(t.Context(), config.ProtoSources{Files: []string{"s.proto"}, ImportPaths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	g, _, _ := newTestGateway(verifyFunc(func(auth.Credential) (*auth.Principal, error) { return nil, auth.ErrInvalid }))
	both := generation{cfg: g.cfg, backends: map[string]*rpcproxy.Backend{"evil": nil, "shop": nil}}
	evil, shop := config.DefaultBackend("evil"), config.DefaultBackend("shop")

	first, err := g.build(both, nil, []routes.Input{{Backend: evil}, {Backend: shop, Descriptors: files}})
	if err != nil {
		t.Fatal(err)
	}
	g.snapshot.Store(first)
	next, err := g.build(both, g.Routes(), []routes.Input{{Backend: evil, Descriptors: files}, {Backend: shop, Descriptors: files}})
	if err == nil {
		t.Error("the conflict is no fault")
	}
	r, err := next.table.MatchGRPC("/shop.S/Get")
	if err != nil || r.Backend != "shop" {
		t.Errorf("got %v, %v", r, err)
	}
	if len(next.services["evil"]) > 0 {
		t.Errorf("evil has %v", next.services["evil"])
	}
}

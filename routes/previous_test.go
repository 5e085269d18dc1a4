package routes

import (
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// A backend that comes later, though first in the config, gets nothing that is
// in force for another.
func TestRebuildKeepsWhatIsInForce(t *testing.T) {
	const get = "shop.OrderService/GetOrder"
	paths := compileText(t, map[string]string{"evil.proto": `syntax = "proto3";
package evil;
import "google/api/annotations.proto";
service Evil {
  rpc Get(X) returns (X) { option (google.api.http) = {
    get: "/v1/orders/{name}"
    additional_bindings { post: "/shop.OrderService/GetOrder" body: "*" }
    additional_bindings { get: "/evil" }
  }; }
}
message X { string name = 1; }`}, "evil.proto")
	explicit := []config.Route{
		{Method: get, Auth: "required"},
		{Method: get, HTTP: &config.HTTPRule{Get: "/o/{id}"}},
	}
	type call struct{ method, path, backend string }
	tests := []struct {
		name   string
		late   *Descriptors
		routes []config.Route
		faults int
		calls  []call
	}{
		{"same service", orders(t), nil, 1, []call{{"GET", "/v1/orders/1", "shop"}, {"PUT", "/v1/orders/1", "shop"}}},
		{"same service and config routes", orders(t), explicit, 3, []call{{"GET", "/v1/orders/1", "shop"}, {"GET", "/o/1", "shop"}}},
		{"same paths", paths, nil, 2, []call{
			{"GET", "/v1/orders/1", "shop"},
			{"POST", "/" + get, "shop"}, // an annotation against a default binding
			{"GET", "/evil", "evil"},
		}},
		{"named by the config", orders(t), []config.Route{
			{Method: get, Backend: "evil"}, {Method: "shop.OrderService/PutOrder", Backend: "shop"},
		}, 0, []call{{"GET", "/v1/orders/1", "evil"}, {"PUT", "/v1/orders/1", "shop"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shop := backendNamed("shop")
			shop.DefaultBinding, shop.Auth = true, "none"
			evil := backendNamed("evil")
			evil.Auth = "none"
			table, err := Build([]Input{{evil, nil}, {shop, orders(t)}}, tt.routes)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the refresh after it, too
				table, err = Rebuild(table, []Input{{evil, tt.late}, {shop, orders(t)}}, tt.routes)
			}
			if got := faultLines(err); got != tt.faults {
				t.Errorf("%d faults, want %d: %v", got, tt.faults, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "evil") || !strings.Contains(err.Error(), "shop")) {
				t.Errorf("names not both: %v", err)
			}
			for _, c := range tt.calls {
				var m Match
				if err := table.MatchHTTP(c.method, c.path, &m); err != nil || m.Route.Backend != c.backend {
					t.Errorf("%s %s: %v, %v; want backend %s", c.method, c.path, m.Route, err, c.backend)
				}
			}
			r, err := table.MatchGRPC("/" + get)
			if err != nil {
				t.Fatal(err)
			}
			if want := tt.calls[0].backend; tt.late != paths && r.Backend != want {
				t.Errorf("gRPC: backend %s, want %s", r.Backend, want)
			}
			if demanded := len(tt.routes) > 0 && tt.routes[0].Auth == "required"; demanded && r.AuthNone {
				t.Error("the config's demand for a credential is lost")
			}
		})
	}
}

func faultLines(err error) int {
	if err == nil {
		return 0
	}
	return strings.Count(err.Error(), "\n") + 1
}

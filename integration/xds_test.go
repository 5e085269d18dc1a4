package integration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// controlPlane is an xDS management server (go-control-plane's) which knows one
// service, "echo".
type controlPlane struct {
	addr    string
	cache   cache.SnapshotCache
	version int
}

const xdsNode = "gateway-under-test"

func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	var config net.ListenConfig
	lis, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &controlPlane{addr: lis.Addr().String(), cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(context.Background())
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, c.cache, nil))
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		cancel()
		s.Stop()
		<-served
	})
	return c
}

// bootstrap writes what gRPC is told of the control plane.
func (c *controlPlane) bootstrap(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "bootstrap.json")
	text := fmt.Sprintf(`{"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}], "node": {"id": %q}}`, c.addr, xdsNode)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve makes these the endpoints of the service.
func (c *controlPlane) serve(t *testing.T, endpoints ...string) {
	t.Helper()
	packed := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ads := &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
	var assigned []*endpointv3.LbEndpoint
	for _, e := range endpoints {
		host, port, _ := net.SplitHostPort(e)
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		assigned = append(assigned, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(number)},
			}}},
		}}})
	}
	c.version++
	snapshot, err := cache.NewSnapshot(strconv.Itoa(c.version), map[resource.Type][]types.Resource{
		resource.ListenerType: {&listenerv3.Listener{Name: "echo", ApiListener: &listenerv3.ApiListener{ApiListener: packed(&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: ads, RouteConfigName: "echo-routes"}},
			HttpFilters:    []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})}}},
		})}}},
		resource.RouteType: {&routev3.RouteConfiguration{Name: "echo-routes", VirtualHosts: []*routev3.VirtualHost{{
			Name: "echo", Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "echo-cluster"}}},
			}},
		}}}},
		resource.ClusterType: {&clusterv3.Cluster{
			Name:                 "echo-cluster",
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads},
			LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
		}},
		resource.EndpointType: {&endpointv3.ClusterLoadAssignment{ClusterName: "echo-cluster", Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality:            &corev3.Locality{Region: "r", Zone: "z"},
			LoadBalancingWeight: wrapperspb.UInt32(1),
			LbEndpoints:         assigned,
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cache.SetSnapshot(t.Context(), xdsNode, snapshot); err != nil {
		t.Fatal(err)
	}
}

// A backend is found by xDS: routes, clusters and endpoints come from a control
// plane, and endpoints that it changes are called without a call that fails.
func TestXDS(t *testing.T) { //nolint:paralleltest // gRPC reads its bootstrap file from the environment
	plane := startControlPlane(t)
	one, two := startCounted(t), startCounted(t)
	plane.serve(t, one.Addr)
	t.Setenv("GRPC_XDS_BOOTSTRAP", plane.bootstrap(t))
	r := newRig(t, "backends:\n  - {name: echo, target: 'xds:///echo', reflection: true}\n")
	must(t, r.echoing())
	must(t, r.invoking(r.conn))
	callers := startLoad(t, 2, r.echoing(), r.invoking(r.conn))
	one.awaitCalls(t, 20)
	plane.serve(t, one.Addr, two.Addr)
	two.awaitCalls(t, 20)
	one.awaitCalls(t, 20)
	plane.serve(t, two.Addr)
	two.awaitCalls(t, 20)
	callers.stop()
	callers.only()
}

package discovery_test

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
)

// A client that finds its backend in etcd.
func ExampleNewEtcd() {
	cli, err := discovery.Dial(config.Etcd{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		panic(err)
	}
	defer cli.Close()
	etcd := discovery.NewEtcd(cli, slog.Default())
	defer etcd.Close()

	conn, err := grpc.NewClient(discovery.EtcdTarget(config.BackendEtcd{Key: "shop.rpc"}),
		grpc.WithResolvers(etcd.Builder()),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
}

// A server that registers while it serves.
func ExampleNewRegistration() {
	cli, err := discovery.Dial(config.Etcd{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		panic(err)
	}
	defer cli.Close()
	address, err := discovery.AdvertiseAddress("0.0.0.0:8081", "")
	if err != nil {
		panic(err)
	}
	registration, err := discovery.NewRegistration(cli, discovery.RegisterOptions{
		Key: "shop.rpc", Address: address, TTL: 10 * time.Second,
	}, slog.Default())
	if err != nil {
		panic(err)
	}
	ctx, deregister := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- registration.Run(ctx) }()

	// … serve; then, before the server stops:
	deregister()
	if err := <-done; err != nil {
		slog.Warn("still registered until the TTL is over", "error", err)
	}
}

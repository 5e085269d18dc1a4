// Command peer runs one of the programs that the bench measures the gateway
// against, or the backend behind them, until it is killed.
//
//	peer -kind grpc-floor -listen 127.0.0.1:9001 -profiles 127.0.0.1:9002 -backend 127.0.0.1:9000
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/peers"
)

func main() {
	kind := flag.String("kind", "", "backend, json-floor, grpc-gateway, grpc-floor, vanguard or h2-proxy")
	listen := flag.String("listen", "127.0.0.1:0", "host:port to serve on")
	profiles := flag.String("profiles", "127.0.0.1:0", "host:port to serve /debug/pprof on")
	backend := flag.String("backend", "", "host:port of the backend, for all kinds but backend")
	flag.Parse()
	err := run(context.Background(), *kind, *listen, *profiles, *backend)
	fmt.Fprintln(os.Stderr, "peer:", err)
	os.Exit(1)
}

func run(ctx context.Context, kind, listen, profiles, backend string) error {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	profilesLis, err := lc.Listen(ctx, "tcp", profiles)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- serveProfiles(profilesLis) }()
	go func() { failed <- peers.Serve(kind, lis, backend) }() //nolint:contextcheck // a peer ends with its process
	return <-failed
}

// serveProfiles serves CPU and allocation profiles under the paths that the
// gateway's admin port has them under.
func serveProfiles(lis net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return srv.Serve(lis)
}

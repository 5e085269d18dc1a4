// Command conformserver is the server that Connect's conformance suite starts
// as the one under test: a gateway before one of the suite's own servers. It
// reads a ServerCompatRequest, starts both, and answers where the gateway is.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// options are what the test that runs the suite tells.
type options struct {
	gateway  string // the gateway's binary
	backend  string // the server behind it, which takes a ServerCompatRequest as well
	protos   string // the folder of the suite's .proto files
	dir      string // for the gateway's config and log
	grpcPort bool   // the suite calls the gateway's gRPC port and not the HTTP port
}

func main() {
	var o options
	flag.StringVar(&o.gateway, "gateway", "", "the gateway's binary")
	flag.StringVar(&o.backend, "backend", "", "the binary of the suite's server that stands behind")
	flag.StringVar(&o.protos, "protos", "", "the folder of the suite's .proto files")
	flag.StringVar(&o.dir, "dir", "", "a folder for the gateway's config and log")
	flag.BoolVar(&o.grpcPort, "grpc-port", false, "answer with the gateway's gRPC port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "conformserver: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	frame, err := readFrame(os.Stdin)
	if err != nil {
		return err
	}
	req, err := parseRequest(frame)
	if err != nil {
		return err
	}
	backend, backendAddr, err := startBackend(o.backend, req)
	if err != nil {
		return err
	}
	defer func() { _ = backend.stop() }()
	gateway, at, err := startGateway(ctx, o, req, backendAddr)
	if err != nil {
		return err
	}
	port := at.http
	if o.grpcPort {
		port = at.grpc
	}
	if err := writeFrame(os.Stdout, response(port, req.cert)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-gateway.done:
	case <-backend.done:
	}
	return gateway.stop()
}

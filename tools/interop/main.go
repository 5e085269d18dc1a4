// Command interop is the server of gRPC's interoperability tests on a free port
// of the loopback interface; upstream's own listens on all interfaces. It
// prints its address and serves until it is killed. The client of these tests
// is upstream's (google.golang.org/grpc/interop/client).
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
)

func main() {
	var listener net.ListenConfig
	lis, err := listener.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	reflection.Register(server)
	fmt.Println(lis.Addr())
	log.Fatal(server.Serve(lis))
}

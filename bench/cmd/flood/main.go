// Command flood offers calls to a server over HTTP/2 in clear text at a rate of
// its own, whatever becomes of them (an open loop): callers who are many, and do
// not know of each other. Each call is given up when its patience is over, as
// callers do. It prints a line each second and one for all: calls begun, served
// in time, refused and late, and the latencies of those that were served.
//
//	flood -target 127.0.0.1:8080 -rate 3000 -patience 2s -path /v1/users/u-1
//
// What shedding is worth is only to be seen where the server has processors of
// its own: in a cgroup with a quota, or by taskset, and flood elsewhere.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/flood"
)

func main() {
	p := flood.Plan{Verb: "GET"}
	var text string
	flag.StringVar(&p.Target, "target", "127.0.0.1:8080", "host:port of the server")
	flag.StringVar(&p.Path, "path", "/", "the path to GET; or, with -grpc, the method to call")
	flag.StringVar(&text, "grpc", "", "call by gRPC, with this text in field 1 of the request")
	flag.IntVar(&p.Conns, "conns", 8, "connections")
	flag.Float64Var(&p.Rate, "rate", 1000, "calls a second, over all connections")
	flag.DurationVar(&p.Patience, "patience", 2*time.Second, "how long a caller waits")
	flag.DurationVar(&p.Length, "for", 10*time.Second, "how long")
	flag.DurationVar(&p.Skip, "skip", 2*time.Second, "how much of the beginning is not in the line for all")
	flag.Parse()
	if text != "" {
		message := append([]byte{10, byte(len(text))}, text...)
		p.Verb = "POST"
		p.Header = [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}}
		p.Body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	t, err := flood.Run(context.Background(), p)
	if t != nil {
		t.Print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

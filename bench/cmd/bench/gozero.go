package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
	"github.com/rpcgate/rpcgate/bench/internal/protoset"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// goZero is go-zero's gateway, from the module in bench/gozero, and left out
// where that cannot be built: a machine that has not built it needs the network
// and some minutes for the hundred modules below it.
const goZero = "go-zero"

const goZeroModule = "github.com/zeromicro/go-zero"

// startGoZero builds go-zero's gateway and starts it before the backend. It is
// false when it cannot be built.
func (s *stage) startGoZero(backend string, progress *log.Logger) (subject, bool, error) {
	progress.Printf("building %s, which takes minutes the first time", goZero)
	binary := filepath.Join(s.dir, "gozero")
	if err := goBuild(s.ctx, filepath.Join(s.programs.root, "bench/gozero"), binary, "."); err != nil {
		if s.ctx.Err() != nil {
			return subject{}, false, s.ctx.Err()
		}
		progress.Printf("%s cannot be built, and is left out (the first time, its modules are downloaded): %v", goZero, err)
		return subject{}, false, nil
	}
	addresses, err := s.addresses(2)
	if err != nil {
		return subject{}, false, err
	}
	listen, profiles := addresses[0], addresses[1]
	file := filepath.Join(s.dir, "gozero.yaml")
	descriptors := filepath.Join(s.dir, "gozero.pb")
	text, err := goZeroConfig(listen, profiles, backend, descriptors)
	if err != nil {
		return subject{}, false, err
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return subject{}, false, err
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{
		File: protoset.Files(shoppb.File_shop_user_proto, catalogpb.File_catalog_catalog_proto),
	})
	if err != nil {
		return subject{}, false, err
	}
	if err := os.WriteFile(descriptors, set, 0o600); err != nil {
		return subject{}, false, err
	}
	p, err := s.launch(goZero, binary, "-f", file)
	if err != nil {
		return subject{}, false, err
	}
	s.goZeroVersion = builtWith(binary, goZeroModule)
	err = p.Await(s.ctx, startTimeout, func(ctx context.Context) error { return proc.Accepts(ctx, listen) })
	return subject{name: goZero, process: p, http: listen, profiles: profiles}, true, err
}

// goZeroConfig has the load shedder off, as callers in a closed loop keep the
// processor busy enough for it to refuse calls, and the log of calls and of its
// own state. The rest is at the defaults: breaker, metrics, tracing, deadlines.
// The routes are the annotations of the descriptors.
func goZeroConfig(listen, profiles, backend, descriptors string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	devHost, devPort, err := net.SplitHostPort(profiles)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`Name: gateway
Host: %s
Port: %s
DevServer: {Host: %s, Port: %s}
Log: {Level: error, Stat: false}
Middlewares: {Shedding: false, Log: false}
Shutdown: {WrapUpTime: 1ms, WaitTime: 100ms}
Upstreams:
  - Grpc: {Endpoints: [%q]}
    ProtoSets: [%q]
`, host, port, devHost, devPort, backend, descriptors), nil
}

// builtWith is the version of a module in a Go program's file.
func builtWith(file, module string) string {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return unknownVersion
	}
	return versionIn(info, module)
}

//go:build keepdeps

package keep

import (
	_ "github.com/alicebob/miniredis/v2"
	_ "github.com/bufbuild/protocompile"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	_ "github.com/hashicorp/golang-lru/v2"
	_ "github.com/invopop/jsonschema"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/sony/gobreaker/v2"
	_ "github.com/spf13/cobra"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/singleflight"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
)

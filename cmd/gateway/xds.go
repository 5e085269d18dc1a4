package main

// The resolver and the balancers of xDS come into gRPC's registries by their
// own init: there is no other way to have `target: xds:///name`.
import _ "google.golang.org/grpc/xds"

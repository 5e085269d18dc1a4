package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/bench/internal/load"
	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// The cases. All are small unary calls; the answer has 150 bytes of JSON, or the
// same message in protobuf.
const (
	caseGet  = "json-get"  // GET /v1/users/{id}
	casePost = "json-post" // POST /v1/users with a body
	caseGRPC = "grpc"      // shop.UserService/GetUser over gRPC
)

func caseNames() []string { return []string{caseGet, casePost, caseGRPC} }

// benchCase is one kind of load and who takes it.
type benchCase struct {
	name     string
	subjects []subject
	dial     func(context.Context, subject) ([]load.Caller, error)
}

// casesOf makes the chosen cases. Every subject of a case gets the very same
// requests, credentials included.
func casesOf(s *stage, o options) ([]benchCase, error) {
	message, err := proto.Marshal(&shoppb.GetUserRequest{Id: peers.UserID})
	if err != nil {
		return nil, err
	}
	throughJSON := slices.Concat(s.gateways, []subject{s.peers[peers.JSONFloor], s.peers[peers.GRPCGateway]})
	throughGRPC := slices.Concat(s.gateways, []subject{s.peers[peers.GRPCFloor]})

	var chosen []benchCase
	for _, name := range o.cases {
		c := benchCase{name: name, subjects: throughJSON}
		switch name {
		case caseGet:
			c.dial = dialHTTP(s, o, http.MethodGet, fmt.Sprintf("/v1/users/%d", peers.UserID), "")
		case casePost:
			c.dial = dialHTTP(s, o, http.MethodPost, "/v1/users", fmt.Sprintf(`{"name":%q}`, peers.UserName()))
		case caseGRPC:
			c.subjects = throughGRPC
			c.dial = func(_ context.Context, to subject) ([]load.Caller, error) {
				return load.DialGRPC(to.grpc, o.concurrency, o.grpcConns, load.GRPCRequest{
					Method:   shoppb.UserService_GetUser_FullMethodName,
					Metadata: metadata.Pairs("app", s.app, "token", s.token),
					Message:  message,
					Want:     peers.UserName(),
				})
			}
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

func dialHTTP(s *stage, o options, method, path, body string) func(context.Context, subject) ([]load.Caller, error) {
	return func(ctx context.Context, to subject) ([]load.Caller, error) {
		var callers []load.Caller
		for range o.concurrency {
			request, err := http.NewRequestWithContext(ctx, method, "http://"+to.http+path, strings.NewReader(body))
			if err != nil {
				return callers, err
			}
			request.Header.Set("Authorization", "Bearer "+s.app+"."+s.token)
			if body != "" {
				request.Header.Set("Content-Type", "application/json")
			}
			caller, err := load.DialHTTP(ctx, to.http, request, peers.UserName())
			if err != nil {
				return callers, err
			}
			callers = append(callers, caller)
		}
		return callers, nil
	}
}

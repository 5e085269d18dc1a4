package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/bench/internal/load"
	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// streamLength is how many messages the streams have.
const streamLength = 100

// The cases. The small answer has 150 bytes of JSON, or the same message in
// protobuf; the larger pages go both ways.
const (
	caseGet        = "json-get"    // GET /v1/users/{id}
	casePost       = "json-post"   // POST /v1/users with a body
	caseMedium     = "json-medium" // POST of a page with 20 nested items, some 4 KB, which comes back
	caseLarge      = "json-large"  // the same with 500, some 100 KB
	caseJSONStream = "json-stream" // GET of a server stream of 100 messages
	caseGRPC       = "grpc"        // shop.UserService/GetUser over gRPC
	caseGRPCStream = "grpc-stream" // a server stream of 100 messages over gRPC
	caseWeb        = "grpc-web"    // GetUser over gRPC-Web, HTTP/1.1
	caseConnect    = "connect"     // GetUser over Connect with protobuf, HTTP/1.1
)

// caseSpec is a case and who is measured in it beside the gateway.
type caseSpec struct {
	name  string
	peers []string
}

// caseSpecs are all cases. go-zero has no large one: with 16 callers it comes
// near its timeouts on a busy machine, and a call that fails ends the run.
func caseSpecs() []caseSpec {
	return []caseSpec{
		{caseGet, []string{peers.JSONFloor, peers.GRPCGateway, peers.Vanguard, goZero}},
		{casePost, []string{peers.JSONFloor, peers.GRPCGateway, peers.Vanguard, goZero}},
		{caseMedium, []string{peers.JSONFloor, peers.GRPCGateway, peers.Vanguard, goZero}},
		{caseLarge, []string{peers.JSONFloor, peers.GRPCGateway, peers.Vanguard}},
		{caseJSONStream, []string{peers.GRPCGateway}},
		{caseGRPC, []string{peers.GRPCFloor, peers.H2Proxy, nginx, haproxy}},
		{caseGRPCStream, []string{peers.GRPCFloor, peers.H2Proxy, nginx, haproxy}},
		{caseWeb, []string{peers.Vanguard}},
		{caseConnect, []string{peers.Vanguard}},
	}
}

func caseNames() []string {
	var names []string
	for _, c := range caseSpecs() {
		names = append(names, c.name)
	}
	return names
}

// benchCase is one kind of load and who takes it.
type benchCase struct {
	name     string
	subjects []subject
	dial     dialer
}

type dialer func(context.Context, subject) ([]load.Caller, error)

// casesOf makes the chosen cases. Every subject of a case gets the very same
// requests, credentials included.
func casesOf(s *stage, o options) ([]benchCase, error) {
	var chosen []benchCase
	for _, name := range o.cases {
		for _, spec := range caseSpecs() {
			if spec.name != name {
				continue
			}
			c := benchCase{name: name, subjects: append([]subject(nil), s.gateways...)}
			for _, kind := range spec.peers {
				if peer, ok := s.peers[kind]; ok { // a program that is not installed is left out
					c.subjects = append(c.subjects, peer)
				}
			}
			var err error
			if c.dial, err = dialerOf(s, o, name); err != nil {
				return nil, err
			}
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// dialerOf says how a case's callers are made.
func dialerOf(s *stage, o options, name string) (dialer, error) {
	small, err := proto.Marshal(&shoppb.GetUserRequest{Id: peers.UserID})
	if err != nil {
		return nil, err
	}
	const getUser = shoppb.UserService_GetUser_FullMethodName
	r := httpRequest{method: http.MethodPost, contentType: "application/json", want: peers.UserName()}
	switch name {
	case caseGet:
		r.method, r.path = http.MethodGet, fmt.Sprintf("/v1/users/%d", peers.UserID)
	case casePost:
		r.path, r.body = "/v1/users", fmt.Sprintf(`{"name":%q}`, peers.UserName())
	case caseMedium, caseLarge:
		items := peers.MediumItems
		if name == caseLarge {
			items = peers.LargeItems
		}
		body, err := protojson.Marshal(peers.Page(items))
		if err != nil {
			return nil, err
		}
		r.path, r.body, r.want = "/v1/pages:echo", string(body), peers.ItemName(items-1)
	case caseJSONStream:
		r.method, r.path, r.want = http.MethodGet, fmt.Sprintf("/v1/items/%d", streamLength), peers.ItemName(streamLength-1)
	case caseWeb:
		envelope := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(small)))
		r.path, r.body, r.contentType = getUser, string(append(envelope, small...)), "application/grpc-web+proto"
		r.header = [2]string{"X-Grpc-Web", "1"}
	case caseConnect:
		r.path, r.body, r.contentType = getUser, string(small), "application/proto"
		r.header = [2]string{"Connect-Protocol-Version", "1"}
	case caseGRPC:
		return dialGRPC(s, o, load.GRPCRequest{Method: getUser, Message: small, Want: peers.UserName()}), nil
	case caseGRPCStream:
		ask, err := proto.Marshal(&catalogpb.ListItemsRequest{Count: streamLength})
		if err != nil {
			return nil, err
		}
		return dialGRPC(s, o, load.GRPCRequest{
			Method: catalogpb.CatalogService_ListItems_FullMethodName, Message: ask,
			Want: peers.ItemName(streamLength - 1), Answers: streamLength,
		}), nil
	default:
		return nil, fmt.Errorf("no load for case %q", name)
	}
	return dialHTTP(s, o, r), nil
}

func dialGRPC(s *stage, o options, r load.GRPCRequest) dialer {
	r.Metadata = metadata.Pairs("app", s.app, "token", s.token)
	return func(_ context.Context, to subject) ([]load.Caller, error) {
		return load.DialGRPC(to.grpc, o.concurrency, o.grpcConns, r)
	}
}

// httpRequest is what the callers of an HTTP case send, again and again.
type httpRequest struct {
	method, path string
	contentType  string // of the body
	header       [2]string
	body, want   string
}

func dialHTTP(s *stage, o options, r httpRequest) dialer {
	return func(ctx context.Context, to subject) ([]load.Caller, error) {
		var callers []load.Caller
		for range o.concurrency {
			request, err := http.NewRequestWithContext(ctx, r.method, "http://"+to.http+r.path, strings.NewReader(r.body))
			if err != nil {
				return callers, err
			}
			request.Header.Set("Authorization", "Bearer "+s.app+"."+s.token)
			// Else net/http asks for gzip, which only the gateway would answer with.
			request.Header.Set("Accept-Encoding", "identity")
			if r.body != "" {
				request.Header.Set("Content-Type", r.contentType)
			}
			if r.header[0] != "" {
				request.Header.Set(r.header[0], r.header[1])
			}
			caller, err := load.DialHTTP(ctx, to.http, request, r.want)
			if err != nil {
				return callers, err
			}
			callers = append(callers, caller)
		}
		return callers, nil
	}
}

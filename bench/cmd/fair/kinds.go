package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rpcgate/rpcgate/bench/internal/flood"
	"github.com/rpcgate/rpcgate/bench/internal/peers"
)

// kind is one kind of load: what there is too little of, and who takes how much
// of it. Two apps of the same weight have half of it each: that is the share.
type kind struct {
	name string
	// What is scarce, for people to read.
	scarce string
	// The gateway's configuration beside what every kind has.
	config string
	// What the backend's section has.
	backend string
	// How many calls the flooder keeps open for each share; 0: the CPU is what is
	// scarce, and a share is half of the calls a second that one app alone is
	// served of those.
	share int
	conns int // of the flooder
	good  request
	flood request
	// Calls a second that the good app makes; 0: a fifth of its share.
	rate float64
	// Connections of the good app.
	goodConns int
	unread    bool // the flooder does not read
}

// request is what is asked.
type request struct {
	verb, path string
	body       []byte
}

func get(path string) request { return request{verb: "GET", path: path} }

// kinds are the six of them, and one more: calls that need little, beside a flood
// of those that need much.
func kinds(factor int) ([]kind, error) {
	small, err := page(400) // 80 KB
	if err != nil {
		return nil, err
	}
	large, err := page(5000) // 1 MB
	if err != nil {
		return nil, err
	}
	const heavy = "/v1/load/pages/500" // 100 KB of JSON
	return []kind{
		{name: "transcoding", scarce: "CPU, by answers of 100 KB of JSON", conns: 16, good: get(heavy), flood: get(heavy)},
		{name: "small beside transcoding", scarce: "CPU, by answers of 100 KB of JSON; the good app's have 200 bytes", conns: 16, good: get("/v1/load/pages/1"), flood: get(heavy), rate: 100},
		{
			name: "slow backend", scarce: "100 calls in flight to a backend that takes 100 ms", backend: "concurrency: {max_calls: 100}",
			share: 50, conns: 16, rate: 50, good: get("/v1/load/pages/1?delay_ms=100"), flood: get("/v1/load/pages/1?delay_ms=100"),
		},
		{
			name: "big bodies", scarce: "64 MiB for bodies", config: "overload: {max_held_size: 64MiB}",
			share: 32, conns: 32, rate: 50, good: request{"POST", "/v1/load/pages", small}, flood: request{"POST", "/v1/load/pages", large},
		},
		{
			name: "many streams", scarce: "500 calls in flight", config: "overload: {max_calls: 500}",
			share: 250, conns: 16, rate: 50, good: get("/v1/load/watch/1?delay_ms=100"), flood: get("/v1/load/watch/1?delay_ms=600000"),
		},
		{
			name: "many connections", scarce: "CPU, by small calls over 50 times as many connections", conns: 20 * factor,
			share: 20, rate: 100, goodConns: 20, good: get("/v1/load/pages/1"), flood: get("/v1/load/pages/1"),
		},
		{
			name: "slow readers", scarce: "64 MiB for answers, of 200 KB that are not read", config: "overload: {max_held_size: 64MiB}",
			share: 54, conns: 16, rate: 20, good: get(heavy), flood: get("/v1/load/pages/1000"), unread: true,
		},
	}, nil
}

func page(items int) ([]byte, error) { return protojson.Marshal(peers.Page(items)) }

// plan is what an app offers.
func (r request) plan(target, app, token string) flood.Plan {
	p := flood.Plan{
		Target: target, Verb: r.verb, Path: r.path, Body: r.body,
		Header: [][2]string{{"authorization", fmt.Sprintf("Bearer %s.%s", app, token)}},
	}
	if len(r.body) > 0 {
		p.Header = append(p.Header, [2]string{"content-type", "application/json"})
	}
	return p
}

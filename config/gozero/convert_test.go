package gozero

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

// The whole of a file with everything in it, as one can read it in testdata.
func TestConvert(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := Convert(data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/full.rpcgate.yaml"
	if *update {
		if err := os.WriteFile(golden, converted.YAML, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(converted.YAML) != string(want) {
		t.Errorf("not what %s has (go test -update, and look at the difference):\n%s", golden, converted.YAML)
	}
	if strings.Contains(string(converted.YAML), "s3cr3t") {
		t.Error("a secret was copied")
	}
}

// What go-zero's own readme has, and what its defaults mean.
const readme = `
Name: demo-gateway
Host: localhost
Port: 8888
Upstreams:
  - Grpc:
      Etcd:
        Hosts:
          - localhost:2379
        Key: hello.rpc
    Mappings:
      - Method: get
        Path: /pingHello/:ping
        RpcPath: hello.Hello/Ping
  - Grpc:
      Endpoints:
        - localhost:8081
    Mappings:
      - Method: post
        Path: /pingWorld
        RpcPath: world.World/Ping
`

func TestConvertedFilesAreValid(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]string{"as refused by default": "", "for everybody": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			converted, err := Convert([]byte(readme), Options{Auth: auth})
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse("gateway.yaml", converted.YAML, nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, converted.YAML)
			}
			hello, world := cfg.Backends[0], cfg.Backends[1]
			switch {
			case hello.Name != "hello" || hello.Etcd.Key != "hello.rpc" || !hello.Reflection || hello.Timeout.String() != "2s":
				t.Errorf("the backend found in etcd: %+v", hello)
			case world.Name != "backend" || world.Endpoints[0] != "localhost:8081":
				t.Errorf("the backend with addresses: %+v", world)
			case cfg.Routes[0].HTTP.Get != "/pingHello/{ping}" || cfg.Routes[0].Method != "hello.Hello/Ping" || cfg.Routes[0].Backend != "hello":
				t.Errorf("the first route: %+v", cfg.Routes[0])
			case cfg.Routes[1].HTTP.Post != "/pingWorld" || cfg.Routes[1].HTTP.Body != "*":
				t.Errorf("the second route: %+v", cfg.Routes[1])
			case cfg.HTTP.Address != "localhost:8888" || cfg.GRPC.Address != "off" || cfg.HTTP.MaxBodySize != 1<<20:
				t.Errorf("the listeners: %+v %+v", cfg.HTTP, cfg.GRPC)
			case auth == "none" && (hello.Auth != "none" || len(cfg.Redis.Addresses) > 0), auth == "" && hello.Auth != "required":
				t.Errorf("auth %q, Redis %v", hello.Auth, cfg.Redis.Addresses)
			}
		})
	}
}

func TestConvertSwitchesOff(t *testing.T) {
	t.Parallel()
	converted, err := Convert([]byte("Port: 80\nTimeout: 0\nCpuThreshold: 0\nMaxConns: 0\nMaxBytes: 0\nUpstreams: [{Grpc: {Target: 'x:1', Timeout: 0}}]"), Options{Auth: "none"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("gateway.yaml", converted.YAML, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, converted.YAML)
	}
	if cfg.Backends[0].Timeout != 0 || cfg.Overload.CPU != 0 || cfg.Overload.QueueDelay != 0 || cfg.Overload.MaxCalls != 0 || cfg.HTTP.MaxBodySize != 1<<30 {
		t.Errorf("%+v %+v %v", cfg.Backends[0].Timeout, cfg.Overload, cfg.HTTP.MaxBodySize)
	}
}

func TestConvertRefuses(t *testing.T) {
	t.Parallel()
	const ok = "Port: 80\nUpstreams: [{Grpc: {Target: 'x:1'}}]\n"
	for name, test := range map[string]struct{ in, want string }{
		"no YAML":             {"a: [", "not YAML"},
		"no mapping":          {"- a", "not a mapping"},
		"nothing":             {"", "not a mapping"},
		"no port":             {"Upstreams: [{Grpc: {Target: 'x:1'}}]", "line 1: Port"},
		"no upstream":         {"Port: 80", "Upstreams: has no gRPC upstream"},
		"upstreams no list":   {"Port: 80\nUpstreams: {a: b}", "line 2: Upstreams: is not a list"},
		"upstream no mapping": {ok + "upstreams: [3]", "line 3: upstreams[0]: is not a mapping"},
		"no target":           {"Port: 80\nUpstreams: [{Grpc: {App: x}}]", "line 2: Upstreams[0].Grpc: names neither"},
		"no number":           {ok + "Timeout: soon", "line 3: Timeout: is not a whole number"},
		"no duration":         {ok + "Shutdown: {WaitTime: soon}", "line 3: Shutdown.WaitTime: is not a duration"},
		"no truth":            {ok + "Middlewares: {Log: perhaps}", "line 3: Middlewares.Log: is neither"},
		"half a mapping":      {"Port: 80\nUpstreams:\n  - Grpc: {Target: 'x:1'}\n    Mappings: [{Method: get}]", "line 4: Upstreams[0].Mappings[0]: needs"},
		"text for a list":     {"Port: 80\nUpstreams: [{Grpc: {Endpoints: x}}]", "Grpc.Endpoints: is not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Convert([]byte(test.in), Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := Convert([]byte(ok), Options{Auth: "maybe"}); err == nil {
		t.Error("an unknown auth passed")
	}
}

// Whatever comes in: no panic, and what comes out is YAML with rpcgate's keys
// and types, whose notes are comments. What is wrong with the values (an address,
// a name) is for config to say, by its key.
func FuzzConvert(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte(readme))
	f.Add([]byte(`{"Port": 1, "Upstreams": [{"Grpc": {"Target": "x"}, "Name": "a\u2028b"}], "x\ny": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		converted, err := Convert(data, Options{Auth: "none"})
		if err != nil {
			return
		}
		cfg, err := config.Parse("gateway.yaml", converted.YAML, func(string) (string, bool) { return "x", true })
		if err == nil && len(cfg.Backends) == 0 {
			t.Fatalf("no backend:\n%s", converted.YAML)
		}
		if err != nil {
			for _, word := range []string{"unknown key", "not YAML", "is a list, but", "is a mapping, but"} {
				if strings.Contains(err.Error(), word) {
					t.Fatalf("%v\n%s", err, converted.YAML)
				}
			}
		}
	})
}

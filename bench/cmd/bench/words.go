package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rpcgate/rpcgate/bench/internal/report"
)

const unknownVersion = "(version unknown)"

// header says what ran, above the table.
func header(o options, s *stage) string {
	version := cmp.Or(s.programs.version, unknownVersion)
	var env string
	if v := os.Getenv("GOGC"); v != "" { // the children inherit it
		env = " GOGC=" + v
	}
	var goZeroLine string
	if s.goZeroVersion != "" {
		goZeroLine = fmt.Sprintf("- go-zero %s: its gateway, with load shedding and access log off\n", s.goZeroVersion)
	}
	return fmt.Sprintf(`rpcgate %s on %d × %s, %s/%s, %s; every process with GOMAXPROCS=%d%s, over loopback, one backend.
Load: closed loop, %d callers (JSON: an HTTP/1.1 connection each; gRPC: %d connections), %d rounds of %v
after %v of warm-up, interleaved. json-get, json-post, grpc, grpc-web, connect: the answer is 150 bytes of JSON, or the same in
protobuf; json-medium, json-large: 20 and 500 nested items, there and back; streams: %d messages. Medians (smallest–largest).
- rpcgate: gateway serve with its default settings: authentication (tokens in redis-server, cached), breaker, metrics,
  access log (to a file), a connection per credential
- floor, JSON: a net/http handler that makes one raw-bytes ClientConn.Invoke and looks at no message
- floor, gRPC: a grpc-go server that passes bytes on from its unknown-service handler, without metadata
- grpc-gateway: generated code, %s; all on grpc-go %s
- vanguard %s: its transcoder before net/http's reverse proxy, h2-proxy: that proxy alone
%s- nginx, haproxy: the system's, without access log, connections kept; nginx has one worker

`,
		version, runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH, runtime.Version(), o.procs, env,
		o.concurrency, o.grpcConns, o.rounds, o.duration, o.warmup, streamLength,
		moduleVersion("github.com/grpc-ecosystem/grpc-gateway/v2"), moduleVersion("google.golang.org/grpc"),
		moduleVersion("connectrpc.com/vanguard"), goZeroLine)
}

// aim is what the project wants of a ratio in some cases.
type aim struct {
	cases   []string
	against string
	most    float64
}

func aims() []aim {
	return []aim{
		{[]string{caseGet, casePost}, grpcGateway, 0.62},
		{[]string{caseMedium}, grpcGateway, 0.25},
		{[]string{caseLarge}, grpcGateway, 0.20},
		{[]string{caseGRPC}, floor, 1.10},
	}
}

// verdicts compares the ratios with the aims.
func verdicts(measured []report.Case) string {
	var b strings.Builder
	for _, aim := range aims() {
		for _, c := range measured {
			ratio, ok := c.Ratio(rpcgate, aim.against)
			if !ok || !slices.Contains(aim.cases, c.Name) {
				continue
			}
			word := "met"
			if ratio.Median > aim.most {
				word = "missed"
			}
			fmt.Fprintf(&b, "%s: %.2f × %s; the aim, at most %.2f, is %s\n", c.Name, ratio.Median, aim.against, aim.most, word)
		}
	}
	return b.String()
}

// cpuModel is the processor's name, as Linux has it.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "CPU"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU"
}

// moduleVersion is the version of a dependency in this binary.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownVersion
	}
	return versionIn(info, path)
}

func versionIn(info *debug.BuildInfo, path string) string {
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return unknownVersion
}

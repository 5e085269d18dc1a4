package transcode_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rpcgate/rpcgate/transcode"
)

// The messages of protobuf's conformance suite, with what it reads as JSON
// (json.txt) and has shown as JSON (wire.txt) for seeds. The suite itself is
// run in integration/protobufsuite, which also writes the seeds.
var suiteMethods = []protoreflect.FullName{"suite.Service.EchoProto2", "suite.Service.EchoProto3", "suite.Service.EchoEdition2023"}

// suiteSeeds reads a file of seeds: strings quoted as in Go, one a line.
func suiteSeeds(tb testing.TB, name string) [][]byte {
	tb.Helper()
	content, err := os.ReadFile("testdata/conformance/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	var seeds [][]byte
	for line := range strings.Lines(string(content)) {
		s, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			tb.Fatalf("%s: %v: %s", name, err, line)
		}
		seeds = append(seeds, []byte(s))
	}
	return seeds
}

// FuzzSuiteBody compares bodies with protojson.
func FuzzSuiteBody(f *testing.F) {
	for _, body := range suiteSeeds(f, "json.txt") {
		for which := range byte(2 * len(suiteMethods)) {
			f.Add(body, which)
		}
	}
	var methods []*transcode.Method
	for _, name := range suiteMethods {
		for _, o := range []byte{0, 8} {
			methods = append(methods, compile(f, name, transcode.Binding{Body: "*"}, options(o)))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which byte) {
		i := int(which) % len(methods)
		compareBodies(t, suiteMethods[i/2], methods[i], i%2 == 1, body)
	})
}

// FuzzSuiteResponse compares responses with protojson.
func FuzzSuiteResponse(f *testing.F) {
	for _, wire := range suiteSeeds(f, "wire.txt") {
		for which := range byte(len(suiteMethods)) {
			f.Add(wire, which, which)
		}
	}
	var methods [][8]*transcode.Method
	for _, name := range suiteMethods {
		var m [8]*transcode.Method
		for o := range byte(8) {
			m[o] = compile(f, name, transcode.Binding{}, options(o))
		}
		methods = append(methods, m)
	}
	f.Fuzz(func(t *testing.T, wire []byte, which, o byte) {
		checkResponse(t, methods[int(which)%len(methods)][o&7], wire)
	})
}

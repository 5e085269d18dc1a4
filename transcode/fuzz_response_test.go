package transcode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rpcgate/rpcgate/transcode"
)

// echoes are methods that show messages of all syntaxes.
var echoes = []protoreflect.FullName{echo, legacy, "corners.Service.Echo", twins}

// echoMethods are these, with each of the options that matter to responses.
func echoMethods(tb testing.TB) (methods [4][8]*transcode.Method) {
	for i, name := range echoes {
		for o := range byte(8) {
			methods[i][o] = compile(tb, name, transcode.Binding{}, options(o))
		}
	}
	return methods
}

// checkResponse compares with protojson: accepted or refused alike, and shown alike.
func checkResponse(t *testing.T, m *transcode.Method, wire []byte) (accepted bool) {
	t.Helper()
	got, err := m.AppendResponse(nil, wire)
	if err == nil && !json.Valid(got) {
		t.Fatalf("% x: not valid JSON: %s", wire, got)
	}
	want, oracle := m.SlowResponse(nil, wire)
	switch {
	case oracle != nil && strings.Contains(errors.Unwrap(oracle).Error(), "malformed message:"):
		// The oracle panicked; see guard.
	case (err == nil) != (oracle == nil):
		t.Fatalf("% x:\nrpcgate says   %v (%v): %s\nprotojson says %v: %s", wire, err, errors.Unwrap(err), got, oracle, want)
	case err == nil && !bytes.Equal(got, want):
		t.Fatalf("% x:\nrpcgate   %s\nprotojson %s", wire, got, want)
	}
	return err == nil
}

// FuzzResponse compares the way out with protojson for any bytes.
func FuzzResponse(f *testing.F) {
	for _, b := range bodies {
		msg := dynamicpb.NewMessage(method(f, echo).Output())
		if (unmarshal{}).try([]byte(b), msg) {
			wire, err := proto.Marshal(msg)
			if err != nil {
				f.Fatal(err)
			}
			for o := range byte(8) {
				f.Add(wire, byte(0), o)
			}
		}
	}
	for seed := range uint64(16) {
		for i, name := range echoes {
			w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 0)), types: testSchema().types}
			f.Add(w.message(method(f, name).Output(), 4), byte(i), byte(seed))
		}
	}
	methods := echoMethods(f)
	f.Fuzz(func(t *testing.T, wire []byte, which, o byte) {
		checkResponse(t, methods[int(which)%len(methods)][o&7], wire)
	})
}

// FuzzGeneratedResponse does the same for messages that are made to be
// unusual: any order, fields in pieces, of the wrong type, extensions, Any.
func FuzzGeneratedResponse(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, byte(seed), byte(seed))
	}
	methods := echoMethods(f)
	f.Fuzz(func(t *testing.T, seed uint64, which, o byte) {
		i := int(which) % len(methods)
		w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 1)), types: testSchema().types}
		checkResponse(t, methods[i][o&7], w.message(method(t, echoes[i]).Output(), 5))
	})
}

// TestGeneratedResponses is a run of it that is long enough to meet what there is.
func TestGeneratedResponses(t *testing.T) {
	methods := echoMethods(t)
	const runs = 4000
	accepted := 0
	for seed := range uint64(runs) {
		w := wireMaker{Rand: rand.New(rand.NewPCG(seed, 2)), types: testSchema().types}
		i := int(seed) % len(methods)
		if checkResponse(t, methods[i][seed>>2&7], w.message(method(t, echoes[i]).Output(), 5)) {
			accepted++
		}
	}
	if accepted < runs/4 || accepted > runs*99/100 {
		t.Errorf("%d of %d messages can be shown: the test misses much", accepted, runs)
	}
}

// FuzzResponseBody compares for one field of the response. The writer does not
// look into the other fields, so it may take more.
func FuzzResponseBody(f *testing.F) {
	for i := range fieldBodies {
		f.Add([]byte("\x92\x01\x02\x4a\x00"), byte(i))
		f.Add(encode(f, echo, bodies[3]), byte(i))
		f.Add(encode(f, echo, bodies[4]), byte(i))
	}
	methods := make([]*transcode.Method, len(fieldBodies))
	for i, field := range fieldBodies {
		methods[i] = compile(f, echo, transcode.Binding{ResponseBody: field}, defaults)
	}
	f.Fuzz(func(t *testing.T, wire []byte, which byte) {
		m := methods[int(which)%len(methods)]
		want, err := m.SlowResponse(nil, wire)
		if err != nil {
			return
		}
		if got, err := m.AppendResponse(nil, wire); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("% x:\nrpcgate   %s (%v)\nprotojson %s", wire, got, err, want)
		}
	})
}

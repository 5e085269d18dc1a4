package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway/wire"
)

// resetWriter is a caller over HTTP/2 that resets its stream: net/http's Write
// fails, and reads on in what it was given.
type resetWriter struct {
	sink
	given, copies [][]byte
	fine          int // how many writes go well first
}

var errReset = errors.New("http2: stream closed")

func (w *resetWriter) Write(p []byte) (int, error) {
	if w.fine--; w.fine >= 0 {
		return len(p), nil
	}
	w.given, w.copies = append(w.given, p), append(w.copies, bytes.Clone(p))
	return 0, errReset
}

// What a write that failed was given is never another caller's.
func TestResetsShareNothing(t *testing.T) {
	t.Parallel()
	backend := config.DefaultBackend("echo")
	backend.DefaultBinding = true
	front := newEchoFrontOf(t, backend)
	serve := func(w http.ResponseWriter, path, contentType, accept, body string) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", contentType)
		for _, h := range []string{"Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
			r.Header.Set(h, accept)
		}
		defer func() { _ = recover() }() // net/http takes http.ErrAbortHandler
		front.ServeHTTP(w, r)
	}
	object := func(text string) string { return `{"text":"` + text + `"}` }
	message := func(text string) string {
		size := len(text)
		return string([]byte{0x0a, byte(size) | 0x80, byte(size >> 7)}) + text
	}
	enveloped := func(form func(string) string) func(string) string {
		return func(text string) string {
			var h [wire.EnvelopeHeaderSize]byte
			wire.PutEnvelopeHeader(&h, 0, len(form(text)))
			return string(h[:]) + form(text)
		}
	}
	for _, k := range []struct {
		path, contentType string
		body              func(text string) string
	}{
		{"/test.Echo/Unary", "application/json", object},
		{"/test.Echo/Chat", "application/json", object},
		{"/test.Echo/Unary", "application/proto", message},
		{"/test.Echo/Unary", "application/grpc", enveloped(message)},
		{"/test.Echo/Unary", "application/grpc-web", enveloped(message)},
		{"/test.Echo/Unary", "application/grpc-web-text", func(text string) string {
			return string(wire.AppendText(nil, []byte(enveloped(message)(text))))
		}},
		{"/test.Echo/Chat", "application/grpc", enveloped(message)},
		{"/test.Echo/Chat", "application/connect+json", enveloped(object)},
		{"/test.Echo/Unary", "application/json", func(string) string { return "{" }},
		{"/none", "application/json", object},
	} {
		for _, accept := range []string{"", "gzip", "zstd"} {
			for fine := range 3 {
				t.Run(fmt.Sprint(k.path, " ", k.contentType, " ", accept, " ", fine), func(t *testing.T) {
					for i := range 8 {
						reset := &resetWriter{sink: sink{header: http.Header{}}, fine: fine}
						serve(reset, k.path, k.contentType, accept, k.body(strings.Repeat(string(rune('a'+i)), 2000)))
						for _, other := range []string{"X", "Y", "Z"} {
							serve(&sink{header: http.Header{}}, k.path, k.contentType, accept, k.body(strings.Repeat(other, 2000)))
						}
						for j, given := range reset.given {
							if !bytes.Equal(given, reset.copies[j]) {
								t.Fatalf("what was written has become %.60q", given)
							}
						}
					}
				})
			}
		}
	}
}

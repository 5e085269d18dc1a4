package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"testing"

	"github.com/rpcgate/rpcgate/integration/nodetest"
)

// pageCases are what a page does, by the client and protocol that it does it
// with (integration/clients/page.mjs).
func pageCases() []string {
	rpc := []string{"unary", "large", "server stream", "error", "error after messages", "wrong token", "deadline", "cancel"}
	library := []string{"unary", "server stream", "error", "error after messages", "wrong token", "deadline", "cancel"}
	var all []string
	for _, client := range []struct {
		name  string
		cases []string
	}{
		{"connect-web, Connect, JSON", rpc},
		{"connect-web, Connect, binary", rpc},
		{"connect-web, gRPC-Web", rpc},
		{"grpc-web, text", library},
		{"grpc-web, binary", library[:len(library)-1]}, // whose streams are read at their end
		{"fetch", []string{"unary", "error", "wrong token", "events", "error event", "cancel events"}},
		{"WebSocket", []string{"bidirectional stream", "server stream", "error", "wrong token", "cancel"}},
	} {
		for _, name := range client.cases {
			all = append(all, client.name+": "+name)
		}
	}
	return all
}

// A page in Chromium, of another origin than the gateway's, calls methods in
// each protocol that pages have. A page of an origin that the config does not
// name can do nothing.
func TestPageOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	node := nodetest.Install(t, "clients")
	b := startClientsBackend(t)
	page, stranger := servePage(t, node, b), servePage(t, node, b)
	r := newRig(t, echoConfig(b.Server, "")+fmt.Sprintf(
		"http: {address: \"127.0.0.1:0\", cors: {allowed_origins: [%q], allowed_headers: [x-header, x-raw-bin], "+
			"exposed_headers: [x-header, x-raw-bin, x-trailer, trailer-x-trailer]}}\n", page))
	open := func(t *testing.T, page, more string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*testLimit)
		defer cancel()
		query := url.Values{"gateway": {r.HTTP}, "app": {r.app}, "token": {r.token}}
		out, err := node.Command(ctx, "browser.mjs", browser, page+"/page.html?"+query.Encode()+more).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return string(out)
	}
	t.Run("named", func(t *testing.T) {
		allPassed(t, open(t, page, ""), pageCases())
		// The deadlines, which all but fetch and WebSocket have, and the cancellations.
		ended := map[string]int{"unary": 5, "server stream": 6}
		for range ended["unary"] + ended["server stream"] {
			ended[waitFor(t, b.waited, "the end of a call").method]--
		}
		if ended["unary"] != 0 || ended["server stream"] != 0 {
			t.Errorf("the backend saw calls end that the page did not, and not others: %v", ended)
		}
	})
	t.Run("stranger", func(t *testing.T) {
		b.Take()
		allPassed(t, open(t, stranger, "&stranger"), []string{"stranger: fetch", "stranger: webSocket"})
		untouched(t, b.Server)
	})
}

// servePage serves the page and what it imports, and returns its origin.
func servePage(t *testing.T, node *nodetest.Program, b *clientsBackend) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(node.Dir)))
	protoset := b.protoset(t)
	mux.HandleFunc("/protoset", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, protoset) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// chromium finds the browser. A machine without one fails the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	t.Fatal("chromium is not installed; the tests need it (`make deps`; Debian, Ubuntu: apt-get install chromium)")
	return ""
}

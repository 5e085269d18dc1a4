package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// Grpc-Message means the same wherever it stands: any text, percent-encoded.
func TestMessageInStreamTrailers(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"gone": "gone", "100%25": "100%2525", "überfüllt": "%C3%BCberf%C3%BCllt", "a\r\nB: c": "a%0D%0AB: c", "": "",
	} {
		w := httptest.NewRecorder()
		s := &jsonStream{peer: &jsonPeer{w: w}}
		s.writeTrailers(&callError{Code: codes.NotFound, Message: message})
		h := w.Header()
		if got := h.Get(http.TrailerPrefix + "Grpc-Message"); got != want {
			t.Errorf("%q is %q, want %q", message, got, want)
		}
		if got := h.Get(http.TrailerPrefix + "Grpc-Status"); got != "5" {
			t.Errorf("%q: status %s", message, got)
		}
	}
}

// A stream's form depends on Accept, and caches are told.
func TestStreamForms(t *testing.T) {
	t.Parallel()
	backend := config.DefaultBackend("echo")
	backend.DefaultBinding = true
	front := newEchoFrontOf(t, backend)
	for accept, want := range map[string]string{
		"*/*":               `application/x-ndjson: {"text":"a"}` + "\n",
		"application/json":  `application/json: [{"text":"a"}]`,
		"text/event-stream": `text/event-stream: data: {"text":"a"}` + "\n\nevent: end\ndata: {}\n\n",
	} {
		r := httptest.NewRequest(http.MethodPost, "/test.Echo/Chat", strings.NewReader(`{"text":"a"}`))
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type") + ": " + w.Body.String(); got != want {
			t.Errorf("%s: %q, want %q", accept, got, want)
		}
		if vary := strings.Join(w.Header()["Vary"], ", "); !strings.HasPrefix(vary, "Accept") || strings.HasPrefix(vary, "Accept-") {
			t.Errorf("%s: Vary: %s", accept, vary)
		}
	}
}

// However long the look-up of a credential takes, a refusal has its own status:
// heartbeats begin when the call was let through.
func TestHeartbeatsAwaitAdmission(t *testing.T) {
	t.Parallel()
	front := newEchoFront(t)
	synctest.Test(t, func(t *testing.T) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", "text/event-stream")
		w := httptest.NewRecorder()
		p := &jsonPeer{front: front.json, w: w, r: r}
		route, err := front.g.Routes().MatchGRPC("/test.Echo/Chat")
		if err != nil {
			t.Fatal(err)
		}
		p.match = routes.Match{Route: route}
		p.stream = newJSONStream(p, func(err error) { t.Error(err) })
		beat := front.cfg.Streams.Heartbeat
		time.Sleep(3*beat + time.Second)
		synctest.Wait()
		if w.Flushed || w.Body.Len() > 0 {
			t.Errorf("the stream began with %q", w.Body)
		}
		if _, err := p.recvMsg(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(beat)
		synctest.Wait()
		if !w.Flushed || w.Body.String() != heartbeat {
			t.Errorf("there is no heartbeat, but %q", w.Body)
		}
		p.stream.stop()
	})
}

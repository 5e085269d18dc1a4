package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/codes"
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

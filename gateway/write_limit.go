package gateway

import (
	"net/http"
	"time"
)

// limitWrite bounds how long the caller may take to read what is written next; 0:
// as long as it takes. Every answer needs it, even a short one: callers who send
// request after request and read nothing fill any buffer. At the end of an answer
// it stays: net/http flushes what it buffered after the handler has returned, and
// lifts the limit itself before the connection's next request.
func limitWrite(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if timeout > 0 && !isGone(r) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // net/http's writers can
	}
}

// isGone tells whether a request's caller has gone away, or reset its stream.
// net/http then stops no limit any more that is set: each would keep the stream's
// memory until it has run out, and a caller that opens and resets streams as fast
// as it can would have all of them kept.
func isGone(r *http.Request) bool { return r.Context().Err() != nil }

// unlimitGone lifts the limits that were set while the stream was being reset.
func unlimitGone(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 && isGone(r) {
		rc := http.NewResponseController(w)
		_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}) // there may be no stream left
	}
}

// unlimitWrite lifts the limit between the messages of a stream: on HTTP/2 one
// that runs out resets the stream, whether something is being written or not.
func unlimitWrite(w http.ResponseWriter, timeout time.Duration) {
	if timeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
}

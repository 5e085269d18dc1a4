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
func limitWrite(w http.ResponseWriter, timeout time.Duration) {
	if timeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // net/http's writers can
	}
}

// unlimitWrite lifts the limit between the messages of a stream: on HTTP/2 one
// that runs out resets the stream, whether something is being written or not.
func unlimitWrite(w http.ResponseWriter, timeout time.Duration) {
	if timeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
}

package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// limitBodyTime gives the request's body until timeout to arrive; 0: as long as
// it takes. The limit holds for whoever reads the body, be it net/http that
// throws it away before it answers a refused call: without one, a caller that
// stops sending would keep the answer from going out, and its goroutine for ever.
func limitBodyTime(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if hasBody(r) && timeout > 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // net/http's writers can
	}
}

func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// readBody appends the request's body to dst, at most limit bytes of it.
func readBody(w http.ResponseWriter, r *http.Request, dst []byte, limit int64) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); hasBody(r) && enc != "" && enc != "identity" {
		return dst, errContentEncoding
	}
	return readAsSent(w, r, dst, limit)
}

// readAsSent appends the request's body to dst, compressed or not, at most limit
// bytes of it. Once the body is there its time limit is lifted, so that the
// connection can be watched for the caller's leaving.
func readAsSent(w http.ResponseWriter, r *http.Request, dst []byte, limit int64) ([]byte, error) {
	if !hasBody(r) {
		return dst, nil
	}
	if r.ContentLength > limit {
		return dst, errBodyTooLarge
	}
	body := io.Reader(r.Body)
	if r.ContentLength > 0 {
		if need := len(dst) + int(min(r.ContentLength, maxPooled)) + 1; cap(dst) < need { // one more to read EOF into
			dst = append(make([]byte, 0, need), dst...)
		}
	} else {
		body = http.MaxBytesReader(w, r.Body, limit)
	}
	dst, err := appendAll(dst, body)
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return dst, nil
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return dst, errBodyTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return dst, errBodyTimeout
	case r.Context().Err() != nil:
		return dst, r.Context().Err()
	}
	f := badRequest("BAD_BODY", "the request body could not be read to its end")
	f.cause = err
	return dst, f
}

// appendAll is io.ReadAll into a slice that may have room already.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err != nil {
			if errors.Is(err, io.EOF) {
				return dst, nil
			}
			return dst, err
		}
	}
}

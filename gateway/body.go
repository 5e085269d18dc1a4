package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// limitBodyTime gives the request's body until timeout to arrive; 0: as long as
// it takes. The limit holds for whoever reads the body, be it net/http that
// throws it away before it answers a refused call: without one, a caller that
// stops sending would keep the answer from going out, and its goroutine for ever.
func limitBodyTime(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if hasBody(r) && timeout > 0 && !isGone(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // net/http's writers can
	}
}

func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// readBody appends the request's body to dst, decompressed; at most limit bytes
// of it, before and after. It is decompressed once it is there as a whole: a few
// bytes can become so many that who sends them, and then nothing more, must not
// have them held. limit is that of all, too.
func readBody(w http.ResponseWriter, r *http.Request, dst []byte, limit int64, all *wire.Compressors, pool *buffers) ([]byte, error) {
	if !hasBody(r) {
		return dst, nil
	}
	compression, err := compressionOf(r.Header, all)
	if err != nil {
		return dst, err
	}
	if compression == nil {
		return readAsSent(w, r, dst, limit)
	}
	packed := pool.room(int(min(r.ContentLength, maxKept)))
	defer pool.Put(packed)
	if *packed, err = readAsSent(w, r, *packed, limit); err != nil {
		return dst, err
	}
	if dst, err = compression.Decompress(dst, *packed); err != nil {
		return dst, bodyFailure(r, err, compression)
	}
	if int64(len(dst)) > limit { // the decompressor's own is that of the listener
		return dst, errBodyTooLarge
	}
	return dst, nil
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
		if need := len(dst) + int(min(r.ContentLength, maxAhead)) + 1; cap(dst) < need { // one more to read EOF into
			dst = append(make([]byte, 0, need), dst...)
		}
	} else {
		body = http.MaxBytesReader(w, r.Body, limit)
	}
	dst, err := appendAll(dst, body)
	if err != nil {
		return dst, bodyFailure(r, err, nil)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return dst, nil
}

// bodyFailure tells why a body could not be read. compression: the one that it
// came in; nil: none.
func bodyFailure(r *http.Request, err error, compression *wire.Compression) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, wire.ErrTooLarge):
		return errBodyTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errBodyTimeout
	case r.Context().Err() != nil:
		return r.Context().Err()
	}
	f := badRequest("BAD_BODY", "the request body could not be read to its end")
	if compression != nil {
		f.Message = "the request body is not valid " + compression.Name()
	}
	f.cause = err
	return f
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

// lastRead is how long is waited, after the answer, for the rest of a body that
// was answered early.
const lastRead = 500 * time.Millisecond

// leaveBody is for an answer over HTTP/1.1, on a connection that closes with it,
// while its caller may still be sending. A connection that is closed while its
// other side sends is reset, and the answer may be lost with it; net/http first
// closes it for writing, and waits for lastRead, only where a body is too large,
// so that is what it is told. It also ends a read that still waits.
func leaveBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastRead)) // net/http's writers can
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("one too many")), 0).Read(make([]byte, 1))
}

// cutOff ends an answer in its middle so that nobody takes it for whole. It does
// not return: net/http closes the connection, or resets the stream of HTTP/2. To
// callers of HTTP/1.0, whose bodies end with the connection, only one that is
// reset tells.
func cutOff(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			resetConn(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

func resetConn(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok { // whose own Close says that all is well
		conn = secure.NetConn()
	}
	if caller, ok := conn.(*callerConn); ok {
		conn = caller.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

package rpcproxy

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// fromBackend tells whether a status was sent by the backend, or made up by
// grpc-go on this side. grpc-go does not say.
//
// What came before it says most:
//   - Neither header nor trailer: nothing that is gRPC came from the backend,
//     so that the status is not its own. (Headers, or the trailers of an answer
//     that has only those, always have a content-type at least.)
//   - Only a trailer: an answer without headers or messages. Its status is in
//     it, unless it is OK where a message was due.
//   - A header: the backend began to answer, and then either ended its answer
//     with the status, or something broke. Trailers mostly have no entry of
//     their own and look like none, and they may have come when a message
//     before them turns out too large, so that only the text is left to tell.
//     A backend that repeats grpc-go's own words after it sent headers is taken
//     for a failure on the way; the caller sees the same code and text.
//
// A stats.Handler would be told of trailers, at fifteen allocations and one or
// two microseconds for each call.
func fromBackend(s *status.Status, header, trailer metadata.MD) bool {
	switch {
	case header == nil && len(trailer) == 0: // grpc-go gives an empty trailer for none
		return false
	case header == nil:
		return !strings.HasPrefix(s.Message(), cardinality)
	default:
		return !madeHere(s)
	}
}

// cardinality is how grpc-go begins to say that there were too few or too many
// messages.
const cardinality = "cardinality violation: "

// madeHere knows what grpc-go (v1.85) says of calls that break after the
// headers came: internal/transport (http2_client.go, transport.go), rpc_util.go
// and stream.go. TestOrigin provokes the kinds that happen on real connections,
// so that a grpc-go that says it differently does not go unnoticed.
func madeHere(s *status.Status) bool {
	begins := func(beginnings ...string) bool { return beginsWith(s.Message(), beginnings...) }
	if begins("stream terminated by RST_STREAM with error code: ") {
		return true
	}
	if isUnmarshalling(s) { // the raw codec on this side never fails
		return false
	}
	switch s.Code() {
	case codes.Unavailable:
		return begins(
			"error reading from server: ",
			"closing transport due to: ",
			"closing connection since the server is not reading: ",
			"connection error: ",
			"keepalive ping failed to receive ACK within timeout",
			"transport is closing",
			"the connection is draining",
			"the stream is rejected because server is draining the connection",
			"received goaway ",
			"no active streams left to process while draining",
		)
	case codes.Internal:
		return begins(
			cardinality,
			"server closed the stream without sending trailers",
			"a HEADERS frame cannot appear in the middle of a stream",
			"peer header list size exceeded limit",
			"transport: malformed ",
			"unexpected EOF",
			"grpc: ",
			// x/net/http2, of malformed frames:
			"received invalid frame",
			"pseudo header field after regular",
			"duplicate pseudo-header ",
			"invalid pseudo-header ",
			"invalid header field ",
		) || strings.Contains(s.Message(), "-bytes data exceeding the limit ") // flow control
	case codes.ResourceExhausted:
		return begins("trying to send message larger than max", "grpc: ")
	case codes.Unknown:
		return begins("transport: malformed ")
	case codes.Canceled:
		return begins("context canceled", "grpc: the client connection is closing")
	case codes.DeadlineExceeded:
		return begins("context deadline exceeded")
	default:
		return false
	}
}

// unprocessed tells of a status that grpc-go made up for a call without headers
// whether the call is certain not to have reached the backend's application,
// though it got as far as a connection (v1.85, internal/transport):
//   - its stream was refused (REFUSED_STREAM), or a GOAWAY left it out: http2
//     says that nothing of it was looked at;
//   - the connection ended, or was about to, before the headers were written;
//   - grpc-go made it again by itself, which it does after one of these only,
//     and then found no connection.
//
// TestOrigin and TestRetry provoke the first on real connections.
func unprocessed(s *status.Status) bool {
	return isRefusal(s) || s.Code() == codes.Unavailable && beginsWith(s.Message(),
		"the stream is rejected because server is draining the connection",
		"the connection is draining",
		"transport is closing",
		`connection error: desc = "transport: `,
	)
}

// isRefusal knows what grpc-go says of a stream that was refused.
func isRefusal(s *status.Status) bool {
	return s.Code() == codes.Unavailable &&
		beginsWith(s.Message(), "stream terminated by RST_STREAM with error code: REFUSED_STREAM")
}

// aboutRequest tells of a status whether it is what a backend's gRPC library
// says when it finds fault with the request, before any of the application's
// code: bytes that are no such message, a compression it does not have, a
// message larger than it takes. Whoever may call a method can bring these about, with the
// codes of a sick backend.
//
// It knows the words of grpc-go's server (v1.85, rpc_util.go and server.go);
// TestBreakerIgnoresWhatIsAboutTheRequest provokes them. Backends in other
// languages have other words, which change from version to version and are not
// recognised: with such a backend a caller's bad messages count as failures of
// the method. And an application that passes on these words, from a call of
// its own to yet another server, is not counted.
func aboutRequest(s *status.Status) bool {
	switch s.Code() {
	case codes.Internal:
		return isUnmarshalling(s) || beginsWith(s.Message(),
			"grpc: failed to decompress ",
			"grpc: failed to read decompressed data: ",
			"grpc: no decompressor available for compressed payload",
			"grpc: compressed flag set with identity or empty encoding",
		)
	case codes.Unimplemented:
		return beginsWith(s.Message(), "grpc: Decompressor is not installed for grpc-encoding ")
	case codes.ResourceExhausted:
		return beginsWith(s.Message(),
			"grpc: received message larger than max",
			"grpc: received message after decompression larger than max",
			"grpc: message after decompression larger than max",
		)
	default:
		return false
	}
}

// isUnmarshalling knows what grpc-go's server says of a request that its codec
// cannot read; the second is older versions' text, of unary calls.
func isUnmarshalling(s *status.Status) bool {
	return s.Code() == codes.Internal && beginsWith(s.Message(),
		"grpc: failed to unmarshal the received message: ",
		"grpc: error unmarshalling request: ",
	)
}

// isThrottled tells of an error whether a proxy between answered 429, which
// grpc-go makes UNAVAILABLE, as it does of 502, 503 and 504: the caller is to
// send less, and not the same again.
func isThrottled(s *status.Status) bool {
	return s.Code() == codes.Unavailable && beginsWith(s.Message(), "unexpected HTTP status code received from server: 429 ")
}

func beginsWith(text string, beginnings ...string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(text, b) {
			return true
		}
	}
	return false
}

// withoutBody takes out of grpc-go's text about an answer that is not gRPC the
// beginning of its body, which may be a page with a stack trace on it, and not
// for the caller.
func withoutBody(text string) string {
	text, _, _ = strings.Cut(text, "\ndata: ")
	return text
}

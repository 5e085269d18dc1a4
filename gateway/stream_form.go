package gateway

// streamForm is how a stream of messages is laid out in one HTTP body, and how
// its reader tells that it is whole.
type streamForm uint8

const (
	// streamLines: one message a line. It ends with the body; a failure is a last
	// line {"error": …}, and in the trailers.
	streamLines streamForm = iota
	// streamEvents: one event a message, comments while there is none. It ends
	// with an event "end", so that a connection that breaks does not look like it;
	// a failure is an event "error".
	streamEvents
	// streamArray: one JSON array. A failure is a last element {"error": …} after
	// which the array stays open and the connection (or HTTP/2 stream) is cut off,
	// so that nothing that reads JSON or HTTP can take it for whole.
	streamArray
	// streamRaw: the data of google.api.HttpBody messages, joined. There is no room
	// for a failure in it: the connection (or stream) is cut off.
	streamRaw
)

// contentType is the media type of the whole; of raw data it is the backend's.
func (f streamForm) contentType() string {
	if offers := streamOffers(); int(f) < len(offers) {
		return offers[f]
	}
	return "application/octet-stream"
}

// appendOpen appends what stands before a message; first: it is the first one.
func (f streamForm) appendOpen(dst []byte, first bool) []byte {
	switch {
	case f == streamEvents:
		return append(dst, "data: "...)
	case f == streamArray && first:
		return append(dst, '[')
	case f == streamArray:
		return append(dst, ',')
	}
	return dst
}

// appendClose appends what stands after a message.
func (f streamForm) appendClose(dst []byte) []byte {
	switch f {
	case streamLines:
		return append(dst, '\n')
	case streamEvents:
		return append(dst, "\n\n"...)
	case streamArray, streamRaw:
	}
	return dst
}

// appendEnd appends what stands at the end of a stream that did not fail; empty:
// no message was in it.
func (f streamForm) appendEnd(dst []byte, empty bool) []byte {
	switch {
	case f == streamEvents:
		return append(dst, "event: end\ndata: {}\n\n"...)
	case f == streamArray && empty:
		return append(dst, "[]"...)
	case f == streamArray:
		return append(dst, ']')
	}
	return dst
}

// cuts tells whether a stream that failed is cut off after what was said of it.
func (f streamForm) cuts() bool { return f == streamArray || f == streamRaw }

// heartbeat is a comment of an event stream.
const heartbeat = ":\n\n"

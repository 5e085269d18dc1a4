package wire

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
)

// ConnectCode names a code as Connect does.
func ConnectCode(c codes.Code) string {
	switch c {
	case codes.Canceled:
		return "canceled"
	case codes.InvalidArgument:
		return "invalid_argument"
	case codes.DeadlineExceeded:
		return "deadline_exceeded"
	case codes.NotFound:
		return "not_found"
	case codes.AlreadyExists:
		return "already_exists"
	case codes.PermissionDenied:
		return "permission_denied"
	case codes.ResourceExhausted:
		return "resource_exhausted"
	case codes.FailedPrecondition:
		return "failed_precondition"
	case codes.Aborted:
		return "aborted"
	case codes.OutOfRange:
		return "out_of_range"
	case codes.Unimplemented:
		return "unimplemented"
	case codes.Internal:
		return "internal"
	case codes.Unavailable:
		return "unavailable"
	case codes.DataLoss:
		return "data_loss"
	case codes.Unauthenticated:
		return "unauthenticated"
	default: // Unknown, and what backends make up
		return "unknown"
	}
}

// ConnectHTTPStatus is the HTTP status of a unary Connect call that failed with
// a code.
func ConnectHTTPStatus(c codes.Code) int {
	switch c {
	case codes.Canceled:
		return 499
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return 400
	case codes.DeadlineExceeded:
		return 504
	case codes.NotFound:
		return 404
	case codes.AlreadyExists, codes.Aborted:
		return 409
	case codes.PermissionDenied:
		return 403
	case codes.ResourceExhausted:
		return 429
	case codes.Unimplemented:
		return 501
	case codes.Unavailable:
		return 503
	case codes.Unauthenticated:
		return 401
	default: // Unknown, Internal, DataLoss, and what backends make up
		return 500
	}
}

// ErrorDetail is one detail of a Connect error.
type ErrorDetail struct {
	Type  string // the message's full name
	Value []byte // the message
	Debug []byte // the same as JSON, for people; empty: not shown
}

// AppendConnectError appends an error as Connect has it in JSON.
func AppendConnectError(dst []byte, code codes.Code, message string, details []ErrorDetail) []byte {
	dst = append(dst, `{"code":"`...)
	dst = append(dst, ConnectCode(code)...)
	dst = append(dst, '"')
	if message != "" {
		dst = append(dst, `,"message":`...)
		dst = appendJSONString(dst, message)
	}
	for i, d := range details {
		if i == 0 {
			dst = append(dst, `,"details":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":`...)
		dst = appendJSONString(dst, d.Type)
		dst = append(dst, `,"value":"`...)
		dst = base64.RawStdEncoding.AppendEncode(dst, d.Value)
		dst = append(dst, '"')
		if len(d.Debug) > 0 {
			dst = append(dst, `,"debug":`...)
			dst = append(dst, d.Debug...)
		}
		dst = append(dst, '}')
	}
	if len(details) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendMetadataEntry appends one key with its values to the metadata of an
// end of stream, which [AppendEndStream] then holds.
func AppendMetadataEntry(dst []byte, key string, values []string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = appendJSONString(dst, key)
	dst = append(dst, ":["...)
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONString(dst, v)
	}
	return append(dst, ']')
}

// AppendEndStream appends the message that ends a Connect stream. failure is
// from [AppendConnectError], metadata from [AppendMetadataEntry]; empty: none.
func AppendEndStream(dst, failure, metadata []byte) []byte {
	dst = append(dst, '{')
	if len(failure) > 0 {
		dst = append(dst, `"error":`...)
		dst = append(dst, failure...)
	}
	if len(metadata) > 0 {
		if len(failure) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `"metadata":{`...)
		dst = append(dst, metadata...)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendJSONString appends any text as a JSON string; what is not UTF-8 is
// shown with replacement characters.
func appendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ', c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r) // U+FFFD for what is none
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// ConnectGet is a unary Connect request in a URL's query.
type ConnectGet struct {
	Version     string // "v1"
	Encoding    string // the codec
	Compression string // of the message
	Base64      bool   // whether Message is in base64url
	Message     string // unescaped
	HasMessage  bool
	HasEncoding bool
}

// ParseConnectGet reads a raw query; of a parameter that stands there more than
// once, the first counts. ok is false where a parameter's escapes are malformed.
func ParseConnectGet(query string) (g ConnectGet, ok bool) {
	var hasVersion, hasCompression, hasBase64 bool
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		text, err := url.QueryUnescape(value)
		first := false
		switch name {
		case "connect":
			if first = !hasVersion; first {
				g.Version, hasVersion = text, true
			}
		case "encoding":
			if first = !g.HasEncoding; first {
				g.Encoding, g.HasEncoding = text, true
			}
		case "compression":
			if first = !hasCompression; first {
				g.Compression, hasCompression = text, true
			}
		case "base64":
			if first = !hasBase64; first {
				g.Base64, hasBase64 = text == "1", true
			}
		case "message":
			if first = !g.HasMessage; first {
				g.Message, g.HasMessage = text, true
			}
		}
		if first && err != nil {
			return ConnectGet{}, false
		}
	}
	return g, true
}

// AppendMessage appends the message's bytes, as they were before base64. ok is
// false where it is none.
func (g *ConnectGet) AppendMessage(dst []byte) (out []byte, ok bool) {
	if !g.Base64 {
		return append(dst, g.Message...), true
	}
	encoding := base64.RawURLEncoding // padding may be left out
	if strings.HasSuffix(g.Message, "=") {
		encoding = base64.URLEncoding
	}
	if strings.ContainsAny(g.Message, "\r\n") { // which the decoder passes over
		return dst, false
	}
	out, err := encoding.AppendDecode(dst, []byte(g.Message))
	if err != nil {
		return dst, false
	}
	return out, true
}

package gateway

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
)

const (
	headerRequestID = "X-Request-Id"
	metadataPrefix  = "Grpc-Metadata-"
	trailerPrefix   = "Grpc-Trailer-"

	keyRequestID     = "x-request-id"
	keyForwardedFor  = "x-forwarded-for"
	keyForwardedHost = "x-forwarded-host"

	maxRequestID = 128 // bytes; a longer one is replaced
)

// permanentKey maps a permanent HTTP header, in canonical form, to the
// metadata key that grpc-gateway's DefaultHeaderMatcher gives it; "" for other
// headers. Authorization is left out: a credential goes to the backend only the
// way rpcproxy sends it.
func permanentKey(header string) string {
	switch header {
	case "Accept":
		return "grpcgateway-accept"
	case "Accept-Charset":
		return "grpcgateway-accept-charset"
	case "Accept-Language":
		return "grpcgateway-accept-language"
	case "Accept-Ranges":
		return "grpcgateway-accept-ranges"
	case "Cache-Control":
		return "grpcgateway-cache-control"
	case "Content-Type":
		return "grpcgateway-content-type"
	case "Cookie":
		return "grpcgateway-cookie"
	case "Date":
		return "grpcgateway-date"
	case "Expect":
		return "grpcgateway-expect"
	case "From":
		return "grpcgateway-from"
	case "Host":
		return "grpcgateway-host"
	case "If-Match":
		return "grpcgateway-if-match"
	case "If-Modified-Since":
		return "grpcgateway-if-modified-since"
	case "If-None-Match":
		return "grpcgateway-if-none-match"
	case "If-Schedule-Tag-Match":
		return "grpcgateway-if-schedule-tag-match"
	case "If-Unmodified-Since":
		return "grpcgateway-if-unmodified-since"
	case "Max-Forwards":
		return "grpcgateway-max-forwards"
	case "Origin":
		return "grpcgateway-origin"
	case "Pragma":
		return "grpcgateway-pragma"
	case "Referer":
		return "grpcgateway-referer"
	case "User-Agent":
		return "grpcgateway-user-agent"
	case "Via":
		return "grpcgateway-via"
	case "Warning":
		return "grpcgateway-warning"
	case "Traceparent":
		return "traceparent"
	case "Tracestate":
		return "tracestate"
	}
	return ""
}

// reservedKey says whether callers may not set a metadata key: credentials,
// what the gateway itself sets, and what gRPC and HTTP/2 keep for themselves.
func reservedKey(key string) bool {
	switch key {
	case "app", "token", "authorization", "x-app", "x-token",
		keyRequestID, keyForwardedFor, keyForwardedHost, "x-forwarded-proto", "x-forwarded-port", "forwarded", "x-real-ip",
		"content-type", "content-length", "user-agent", "te", "trailer", "host",
		"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
		"proxy-authorization", "grpcgateway-authorization":
		return true
	}
	return key == "" || key[0] == ':' || strings.HasPrefix(key, "grpc-")
}

// metadataFromHTTP picks the headers of r that the backend gets: the permanent
// ones, and Grpc-Metadata-*. The values are r's own slices, not to be changed.
func metadataFromHTTP(r *http.Request, requestID, clientIP, forwardedFor string) (metadata.MD, error) {
	md := make(metadata.MD, len(r.Header)+3)
	for header, values := range r.Header {
		if key := permanentKey(header); key != "" {
			if validValues(values) {
				md[key] = values
			}
			continue
		}
		if !strings.HasPrefix(header, metadataPrefix) {
			continue
		}
		key := strings.ToLower(header[len(metadataPrefix):])
		if reservedKey(key) || strings.HasPrefix(key, "grpcgateway-") {
			continue
		}
		if !validKey(key) {
			return nil, badRequest("BAD_METADATA", "header "+header+" does not name a valid metadata key")
		}
		if strings.HasSuffix(key, "-bin") {
			decoded, err := decodeBinary(values)
			if err != nil {
				return nil, badRequest("BAD_METADATA", "header "+header+" is not valid base64")
			}
			values = decoded
		} else if !validValues(values) {
			return nil, badRequest("BAD_METADATA", "header "+header+" has bytes that are not printable ASCII")
		}
		md[key] = values
	}
	own := [3]string{requestID, forwardedFor, r.Host}
	if own[1] == "" {
		own[1] = clientIP
	}
	md[keyRequestID] = own[0:1:1]
	md[keyForwardedFor] = own[1:2:2]
	if r.Host != "" && validValue(r.Host) {
		md[keyForwardedHost] = own[2:3:3]
	}
	return md, nil
}

// filterMetadata takes what callers may not set out of md, in place, and adds
// what the gateway says of the call. What gRPC does not allow is refused, as it
// could not be sent on: grpc-go's server lets it in.
func filterMetadata(md metadata.MD, requestID, clientIP string) error {
	for key, values := range md {
		switch {
		case reservedKey(key), strings.HasPrefix(key, "grpcgateway-"):
			delete(md, key)
		case !validKey(key):
			return badRequest("BAD_METADATA", "a metadata key is not valid")
		case !strings.HasSuffix(key, "-bin") && !validValues(values):
			return badRequest("BAD_METADATA", "metadata "+key+" has bytes that are not printable ASCII")
		}
	}
	own := [2]string{requestID, clientIP}
	md[keyRequestID] = own[0:1:1]
	md[keyForwardedFor] = own[1:2:2]
	return nil
}

// addMetadata writes a backend's metadata as HTTP headers with a prefix.
// Binary values go out in base64.
func addMetadata(h http.Header, prefix string, md metadata.MD) {
	for key, values := range md {
		if key == "content-type" || key == "grpc-status-details-bin" || key[0] == ':' {
			continue
		}
		name := http.CanonicalHeaderKey(prefix + key)
		if strings.HasSuffix(key, "-bin") {
			for _, v := range values {
				h[name] = append(h[name], base64.StdEncoding.EncodeToString([]byte(v)))
			}
			continue
		}
		h[name] = append(h[name], values...)
	}
}

// decodeBinary decodes base64 values, padded or not, as gRPC's HTTP/2 mapping
// has them. One header line may hold several, joined by commas.
func decodeBinary(values []string) ([]string, error) {
	out := make([]string, 0, len(values))
	for _, line := range values {
		for v := range strings.SplitSeq(line, ",") {
			v = strings.TrimRight(strings.TrimSpace(v), "=")
			b, err := base64.RawStdEncoding.DecodeString(v)
			if err != nil {
				return nil, err
			}
			out = append(out, string(b))
		}
	}
	return out, nil
}

// validKey says whether key is a gRPC Header-Name: 0-9 a-z _ - .
func validKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return key != ""
}

func validValues(values []string) bool {
	for _, v := range values {
		if !validValue(v) {
			return false
		}
	}
	return true
}

// validValue says whether v is a gRPC ASCII-Value: printable, spaces included.
func validValue(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}

// requestID returns the id that a caller gave its request, where it is usable,
// or a new random one.
func requestID(given []string) string {
	if len(given) == 1 && given[0] != "" && len(given[0]) <= maxRequestID && validValue(given[0]) {
		return given[0]
	}
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64()) //nolint:gosec // an id to find log lines by, not a secret
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64()) //nolint:gosec // as above
	return hex.EncodeToString(raw[:])
}

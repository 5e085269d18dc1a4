package gateway

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
)

const (
	headerRequestID = "X-Request-Id"
	metadataPrefix  = "Grpc-Metadata-"
	trailerPrefix   = "Grpc-Trailer-"
	gatewayPrefix   = "grpcgateway-" // of permanent headers as metadata; never the caller's own

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

// metadataFromHTTP picks the headers that a backend gets of a JSON request: the
// permanent ones, those of the context, Grpc-Metadata-*, and what the route's
// rules let through. The values are r's own slices, not to be changed.
func metadataFromHTTP(r *http.Request, context contextHeaders, rules *ruleList, requestID, clientIP, forwardedFor string) (metadata.MD, error) {
	p := headerPicker{h: r.Header, context: context, rules: rules, hops: connectionOptions(r.Header), md: make(metadata.MD, len(r.Header)+3)}
	if err := eachHeader(r.Header, rules != nil, p.pick); err != nil {
		return nil, err
	}
	md := rules.applySet(p.md)
	addOwn(md, requestID, clientIP, forwardedFor, r.Host)
	return md, nil
}

// eachHeader visits headers; ordered: by name, since rules can make one key of
// several.
func eachHeader(h http.Header, ordered bool, visit func(header string, values []string) error) error {
	if !ordered {
		for header, values := range h {
			if err := visit(header, values); err != nil {
				return err
			}
		}
		return nil
	}
	for _, header := range slices.Sorted(maps.Keys(h)) {
		if err := visit(header, h[header]); err != nil {
			return err
		}
	}
	return nil
}

// headerPicker picks metadata out of the headers of a JSON request.
type headerPicker struct {
	h       http.Header
	context contextHeaders
	rules   *ruleList
	hops    []string
	md      metadata.MD
}

func (p *headerPicker) pick(header string, values []string) error {
	permanent := p.context.key(header)
	name, key := "", permanent
	switch given, ok := strings.CutPrefix(header, metadataPrefix); {
	case permanent != "":
		if p.rules != nil || len(p.hops) > 0 {
			name = strings.ToLower(header)
		}
	case ok:
		name = strings.ToLower(given)
		if config.ReservedHeader(name) || len(p.h[given]) > 0 && p.context.key(given) == name {
			return nil // the context itself goes before one in metadata
		}
		key = name
	case p.rules == nil:
		return nil
	default:
		if name = strings.ToLower(header); config.ReservedHeader(name) {
			return nil
		}
	}
	if strings.HasPrefix(name, gatewayPrefix) || slices.Contains(p.hops, name) {
		return nil
	}
	if p.rules != nil {
		key = p.rules.key(name, key)
	}
	switch {
	case key == "":
		return nil
	case key == permanent && !validValues(values):
		return nil // nobody asked for it
	}
	values, err := metadataValues(header, key, values)
	if err != nil {
		return err
	}
	putMetadata(p.md, key, values)
	return nil
}

// filterMetadata takes what callers may not set out of md, in place, applies the
// route's rules, and adds what the gateway says of the call. What gRPC does not
// allow is refused, as it could not be sent on: grpc-go's server lets it in.
func filterMetadata(md metadata.MD, rules *ruleList, requestID, clientIP string) (metadata.MD, error) {
	for key, values := range md {
		switch {
		case config.ReservedHeader(key), strings.HasPrefix(key, gatewayPrefix):
			delete(md, key)
		case !validKey(key):
			return nil, badRequest("BAD_METADATA", "a metadata key is not valid")
		case !strings.HasSuffix(key, "-bin") && !validValues(values):
			return nil, badRequest("BAD_METADATA", "metadata "+key+" has bytes that are not printable ASCII")
		}
	}
	md = rules.applySet(rules.apply(md))
	addOwn(md, requestID, clientIP, "", "")
	return md, nil
}

// addMetadata writes a backend's metadata as HTTP headers with a prefix, or
// under its own name where the rules say so; what has http.TrailerPrefix before
// its name stays a trailer. Binary values go out in base64. What gRPC does not
// allow is left out.
func addMetadata(h http.Header, prefix string, md metadata.MD, rules *ruleList) {
	own := len(md[keyFallback]) > 0 // then nothing of it is a backend's
	for key, values := range md {
		binary := strings.HasSuffix(key, "-bin")
		if key == "content-type" || key == "grpc-status-details-bin" || !validKey(key) || !binary && !validValues(values) {
			continue
		}
		full := prefix + key
		if strings.HasPrefix(key, ownPrefix) || key == keyRateLimit || key == keyRateLimitPolicy || key == keyAge && own || rules.plain(key) {
			full = key
			if strings.HasPrefix(prefix, http.TrailerPrefix) {
				full = http.TrailerPrefix + key
			}
		}
		name := http.CanonicalHeaderKey(full)
		if binary {
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

package gateway

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
)

// metadataFromRPC picks the headers that a backend gets of a request in one of
// the RPC protocols: all, under their own names, but for the reserved ones, and
// for what browsers and HTTP clients add of themselves to gRPC-Web and Connect
// requests. The values are r's own slices, not to be changed.
func metadataFromRPC(r *http.Request, proto protocol, context contextHeaders, rules *ruleList, requestID, clientIP, forwardedFor string) (metadata.MD, error) {
	md := make(metadata.MD, len(r.Header)+3)
	hops := connectionOptions(r.Header)
	err := eachHeader(r.Header, rules != nil, func(header string, values []string) error {
		key := lowerHeader(header)
		if config.ReservedHeader(key) || strings.HasPrefix(key, gatewayPrefix) || slices.Contains(hops, key) {
			return nil
		}
		to := key
		if proto != protocolGRPC && clientHeader(key) && context[header] == "" {
			to = ""
		}
		if rules != nil {
			to = rules.key(key, to)
		}
		if to == "" {
			return nil
		}
		values, err := metadataValues(header, to, values)
		if err != nil {
			return err
		}
		putMetadata(md, to, values)
		return nil
	})
	if err != nil {
		return nil, err
	}
	md = rules.applySet(md)
	addOwn(md, requestID, clientIP, forwardedFor, r.Host)
	return md, nil
}

// metadataValues checks a header's values for what gRPC allows, and decodes
// those of binary metadata.
func metadataValues(header, key string, values []string) ([]string, error) {
	if !validKey(key) {
		return nil, badRequest("BAD_METADATA", "header "+header+" does not name a valid metadata key")
	}
	if strings.HasSuffix(key, "-bin") {
		decoded, err := decodeBinary(values)
		if err != nil {
			return nil, badRequest("BAD_METADATA", "header "+header+" is not valid base64")
		}
		return decoded, nil
	}
	if !validValues(values) {
		return nil, badRequest("BAD_METADATA", "header "+header+" has bytes that are not printable ASCII")
	}
	return values, nil
}

// putMetadata adds values, which are not to be changed, to a key.
func putMetadata(md metadata.MD, key string, values []string) {
	if before, ok := md[key]; ok {
		values = slices.Concat(before, values)
	}
	md[key] = values
}

// addOwn adds what the gateway itself says of a call. forwardedFor is empty
// where it is clientIP alone.
func addOwn(md metadata.MD, requestID, clientIP, forwardedFor, host string) {
	own := [3]string{requestID, forwardedFor, host}
	if own[1] == "" {
		own[1] = clientIP
	}
	md[keyRequestID] = own[0:1:1]
	md[keyForwardedFor] = own[1:2:2]
	if host != "" && validValue(host) {
		md[keyForwardedHost] = own[2:3:3]
	}
}

// clientHeader says whether a header, in lower case, is one that browsers and
// HTTP clients send by themselves, or that is about HTTP and not the call. Such
// are not the metadata of a gRPC-Web or Connect call, unless a rule or the
// configured context has them.
func clientHeader(key string) bool {
	switch key {
	case "accept", "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "range",
		"origin", "referer", "cookie", "dnt", "priority", "save-data", "upgrade-insecure-requests",
		"cache-control", "pragma", "date", "expect", "from", "via", "warning", "max-forwards", "early-data",
		"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "if-schedule-tag-match",
		"content-disposition", "content-language", "content-location", "content-md5", "content-range",
		"x-grpc-web", "x-user-agent", "x-requested-with", "x-request-timeout":
		return true
	}
	return strings.HasPrefix(key, "sec-")
}

// connectionOptions lists, in lower case, the headers that a request's
// Connection header makes hop-by-hop (RFC 9110, section 7.6.1). Nearly always
// there are none.
func connectionOptions(h http.Header) []string {
	var options []string
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			option = strings.ToLower(strings.TrimSpace(option))
			if option != "" && !config.ReservedHeader(option) && option != "close" {
				options = append(options, option)
			}
		}
	}
	return options
}

// lowerHeader is strings.ToLower without an allocation for the headers that
// nearly every request has, and which end here.
func lowerHeader(header string) string {
	switch header {
	case "Accept":
		return "accept"
	case "Accept-Encoding":
		return "accept-encoding"
	case "Accept-Language":
		return "accept-language"
	case "Authorization":
		return "authorization"
	case "Connect-Protocol-Version":
		return "connect-protocol-version"
	case "Connect-Timeout-Ms":
		return "connect-timeout-ms"
	case "Content-Length":
		return "content-length"
	case "Content-Type":
		return "content-type"
	case "Grpc-Accept-Encoding":
		return "grpc-accept-encoding"
	case "Grpc-Timeout":
		return "grpc-timeout"
	case "Te":
		return "te"
	case "User-Agent":
		return "user-agent"
	case "X-App":
		return "x-app"
	case "X-Token":
		return "x-token"
	}
	return strings.ToLower(header)
}

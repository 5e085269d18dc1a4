package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
)

// eachAnswer calls use with each key of a backend's metadata that an RPC caller
// over HTTP gets, and its values as they stand in a header.
func eachAnswer(md metadata.MD, use func(key string, values []string)) {
	for key, values := range md {
		if reservedAnswerKey(key) || httpAnswerKey(key) || !validKey(key) {
			continue
		}
		if strings.HasSuffix(key, "-bin") {
			encoded := make([]string, len(values))
			for i, v := range values {
				encoded[i] = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			values = encoded
		} else if !validValues(values) {
			continue
		}
		use(key, values)
	}
}

// httpAnswerKey says whether a key means something to HTTP, Connect or browsers
// that is not the backend's to say.
func httpAnswerKey(key string) bool {
	switch key {
	case "content-encoding", "accept-encoding", "accept-post", "allow",
		"connect-content-encoding", "connect-accept-encoding", "connect-protocol-version":
		return true
	}
	return strings.HasPrefix(key, "access-control-")
}

// addAnswer adds a backend's metadata to headers, under its own names with a
// prefix before them.
func addAnswer(h http.Header, prefix string, md metadata.MD) {
	eachAnswer(md, func(key string, values []string) {
		name := prefix + http.CanonicalHeaderKey(key)
		h[name] = append(h[name], values...)
	})
}

// typeName is the message's name in a type URL.
func typeName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
)

// The permanent headers are grpc-gateway's, but for Authorization and the
// trace context.
func TestPermanentHeadersAgreeWithGRPCGateway(t *testing.T) {
	for _, header := range []string{
		"Accept", "Accept-Charset", "Accept-Language", "Accept-Ranges", "Accept-Encoding", "Cache-Control", "Connection",
		"Content-Type", "Content-Length", "Cookie", "Date", "Expect", "From", "Host", "If-Match", "If-Modified-Since",
		"If-None-Match", "If-Schedule-Tag-Match", "If-Unmodified-Since", "Max-Forwards", "Origin", "Pragma", "Referer",
		"User-Agent", "Via", "Warning", "X-App", "X-Token", "Te", "Trailer", "Upgrade", "X-Custom",
	} {
		key, ok := runtime.DefaultHeaderMatcher(header)
		if got := permanentKey(header); (got != "") != ok || got != strings.ToLower(key) {
			t.Errorf("permanentKey(%q) = %q; grpc-gateway has %q, %v", header, got, key, ok)
		}
	}
	if got := permanentKey("Authorization"); got != "" {
		t.Errorf("Authorization reaches backends as %q", got)
	}
}

// No name that a credential can come by is ever passed on as it came.
func TestCredentialKeysAreReserved(t *testing.T) {
	for _, key := range auth.CredentialHeaders() {
		if !config.ReservedHeader(key) {
			t.Errorf("callers may send backends %q", key)
		}
	}
}

func TestMetadataFromHTTP(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://shop.example/v1", nil)
	r.Header = http.Header{
		"Authorization":                    {"Bearer acme.secret"},
		"X-App":                            {"acme"},
		"X-Token":                          {"secret"},
		"User-Agent":                       {"curl/8"},
		"Accept":                           {"*/*"},
		"Referer":                          {"caf\xe9"}, // not ASCII: left out
		"X-Custom":                         {"not forwarded"},
		"Connection":                       {"close"},
		"Traceparent":                      {"00-1-2-01"},
		"Grpc-Metadata-Tenant":             {"blue", "green"},
		"Grpc-Metadata-Trace-Bin":          {"AQI=,Aw"},
		"Grpc-Metadata-App":                {"other"},
		"Grpc-Metadata-Token":              {"stolen"},
		"Grpc-Metadata-Authorization":      {"Bearer stolen"},
		"Grpc-Metadata-Grpc-Timeout":       {"1H"},
		"Grpc-Metadata-X-Request-Id":       {"forged"},
		"Grpc-Metadata-Te":                 {"gzip"},
		"Grpc-Metadata-Content-Length":     {"7"},
		"Grpc-Metadata-Grpcgateway-Accept": {"forged"},
	}
	got, err := metadataFromHTTP(r, nil, nil, "id-1", "10.0.0.1", "1.1.1.1, 10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	want := metadata.MD{
		"grpcgateway-user-agent": {"curl/8"},
		"grpcgateway-accept":     {"*/*"},
		"traceparent":            {"00-1-2-01"},
		"tenant":                 {"blue", "green"},
		"trace-bin":              {"\x01\x02", "\x03"},
		"x-request-id":           {"id-1"},
		"x-forwarded-for":        {"1.1.1.1, 10.0.0.1"},
		"x-forwarded-host":       {"shop.example"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestBadMetadataHeaders(t *testing.T) {
	for header, value := range map[string]string{
		"Grpc-Metadata-Trace-Bin": "not base64!",
		"Grpc-Metadata-Tenant":    "caf\xe9",
		"Grpc-Metadata-Ten~ant":   "x",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = http.Header{header: {value}}
		_, err := metadataFromHTTP(r, nil, nil, "id", "10.0.0.1", "")
		var failure *callError
		if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument {
			t.Errorf("%s: %q gave %v", header, value, err)
		}
	}
}

func TestAddMetadata(t *testing.T) {
	h := http.Header{}
	addMetadata(h, metadataPrefix, metadata.MD{
		"content-type": {"application/grpc"}, "etag": {"a", "b"}, "raw-bin": {"\x00\xff"}, "grpc-status-details-bin": {"x"},
	}, nil)
	want := http.Header{"Grpc-Metadata-Etag": {"a", "b"}, "Grpc-Metadata-Raw-Bin": {"AP8="}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %v, want %v", h, want)
	}
}

func TestRequestID(t *testing.T) {
	if got := requestID([]string{"caller-chose-it"}); got != "caller-chose-it" {
		t.Errorf("a usable id became %q", got)
	}
	seen := map[string]bool{}
	for _, given := range [][]string{nil, {""}, {"a", "b"}, {"line\nbreak"}, {strings.Repeat("x", 129)}} {
		got := requestID(given)
		if len(got) != 32 || seen[got] {
			t.Errorf("requestID(%q) = %q", given, got)
		}
		seen[got] = true
	}
}

package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// One call goes to every endpoint, also to those that ordinary calls do not use,
// and one of them is gone.
func TestFanOut(t *testing.T) {
	t.Parallel()
	endpoints := []string{gatewaytest.FreeAddress(t)}
	dead := endpoints[0]
	var backends []*testbackend.Server
	for i := range 3 {
		b := testbackend.Start(t)
		b.Handle("Echo/Unary", naming(b, fmt.Sprint("endpoint ", i)))
		endpoints = append(endpoints, b.Addr)
		backends = append(backends, b)
	}
	text := "backends:\n" + strings.Replace(endpointsConfig("echo", "balancer: {subset: {size: 1, id: x}}", endpoints...),
		"reflection: true", "protoset: ["+writeProtoset(t, backends[0])+"]", 1) + "routes:\n"
	for _, require := range []string{"all", "any", "none"} {
		text += fmt.Sprintf("  - {method: testbackend.Echo/Unary, to: all, fan_out: {require: %s, concurrency: 2}, http: {post: /%[1]s, body: '*'}}\n", require)
	}
	text += "  - {method: testbackend.Echo/Unary, to: all, fan_out: {max_endpoints: 2}, http: {post: /few, body: '*'}}\n" +
		"  - {method: testbackend.Files/Raw, to: all, fan_out: {require: any}}\n"
	r := newRig(t, text)

	type result struct {
		Endpoint, Code, Message, Reason string
		Response                        struct{ Text string }
	}
	for require, want := range map[string]int{"all": http.StatusServiceUnavailable, "any": http.StatusOK, "none": http.StatusOK} {
		a := r.call(t, "POST", "/"+require, `{"text": "hello"}`)
		if a.Status != want {
			t.Fatalf("%s: %d %s", require, a.Status, a.Body)
		}
		var got struct {
			Code      int
			Message   string
			Endpoints []result
		}
		decodeJSON(t, a.Body, &got)
		if (got.Code != 0) != (want != http.StatusOK) || (got.Message != "") != (want != http.StatusOK) {
			t.Errorf("%s: code %d, %q", require, got.Code, got.Message)
		}
		if strings.Contains(a.Body, "FAN_OUT_FAILED") != (want != http.StatusOK) {
			t.Errorf("%s: the reason is not told: %s", require, a.Body)
		}
		if len(got.Endpoints) != 4 || !slices.IsSortedFunc(got.Endpoints, func(a, b result) int { return strings.Compare(a.Endpoint, b.Endpoint) }) {
			t.Errorf("%s: %s", require, a.Body)
		}
		for _, e := range got.Endpoints {
			i := slices.Index(endpoints, e.Endpoint)
			switch {
			case e.Endpoint == dead:
				if e.Code != "UNAVAILABLE" || e.Reason != "BACKEND_UNREACHABLE" || e.Message == "" {
					t.Errorf("%s: the dead endpoint: %+v", require, e)
				}
			case i < 0 || e.Code != "OK" || e.Response.Text != fmt.Sprint("endpoint ", i-1):
				t.Errorf("%s: %+v", require, e)
			}
		}
		for i, b := range backends {
			if n := len(b.Take()); n != 1 {
				t.Errorf("%s: endpoint %d was called %d times", require, i, n)
			}
		}
	}
	r.call(t, "POST", "/few", "{}").failed(t, http.StatusBadRequest, codes.FailedPrecondition, "FAN_OUT_TOO_WIDE")
	if n := r.Metric("rpcgate_calls_total", "route", "/all", "code", "UNAVAILABLE"); n != 1 {
		t.Errorf("%v failed calls are counted", n)
	}
	// The breaker is not for what one endpoint of many does.
	for range 20 {
		r.call(t, "POST", "/any", "{}").ok(t, "")
	}

	// Callers whose protocol has one message get the first of them, and a list.
	var header, trailer metadata.MD
	msg, err := invoke(r.limited(t), r.conn, "/testbackend.Files/Raw", backends[0].Encode("google.api.HttpBody", `{"contentType": "a/b"}`), grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, backends[0].JSON("google.api.HttpBody", msg), `{"contentType": "a/b"}`)
	var want []string
	for _, e := range endpoints {
		code := "OK"
		if e == dead {
			code = "UNAVAILABLE"
		}
		want = append(want, e+" "+code)
	}
	slices.Sort(want)
	if !slices.Equal(trailer["x-rpcgate-results"], want) {
		t.Errorf("results %v, want %v", trailer["x-rpcgate-results"], want)
	}
}

// By gRPC too, a call that too few endpoints served is a failure, and tells of
// each.
func TestFanOutFails(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	sick := testbackend.Start(t)
	sick.Handle("Echo/Unary", failing(codes.Internal))
	r := newRig(t, "backends:\n"+endpointsConfig("echo", "", sick.Addr, b.Addr)+"routes: [{method: testbackend.Echo/Unary, to: all}]\n")
	var trailer metadata.MD
	_, err := invoke(r.limited(t), r.conn, echoMethod, nil, grpc.Trailer(&trailer))
	grpcFailed(t, err, codes.Internal, "FAN_OUT_FAILED")
	want := []string{sick.Addr + " INTERNAL", b.Addr + " OK"}
	slices.Sort(want)
	if !slices.Equal(trailer["x-rpcgate-results"], want) {
		t.Errorf("results %v, want %v", trailer["x-rpcgate-results"], want)
	}
	if n := len(sick.Take()); n != 1 {
		t.Errorf("%d calls to the sick endpoint", n)
	}
	a := r.call(t, "POST", echoMethod, "{}", "Content-Type", "application/json", "Connect-Protocol-Version", "1")
	if a.Status != http.StatusInternalServerError || len(a.Header.Values("Trailer-X-Rpcgate-Results")) != 2 {
		t.Errorf("Connect: %d %v", a.Status, a.Header)
	}
}

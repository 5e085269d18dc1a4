package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// testLimit is how long one test may take that waits for nothing but answers.
const testLimit = time.Minute

// rig is a gateway with a Redis of its own and an app that has a token in it.
type rig struct {
	*gatewaytest.Gateway
	redis      *redistest.Server
	app, token string

	http1, http2 *http.Client
	conn         *grpc.ClientConn // lazy: connects with the first call
}

// newRig starts a gateway with a config, to which the Redis is added.
func newRig(t *testing.T, configText string) *rig {
	t.Helper()
	r := &rig{redis: redistest.Start(t, redistest.Options{}), app: "acme"}
	r.token = issueToken(t, r.redis.Addr, tenant.IssueOptions{App: r.app}).Secret
	r.Gateway = gatewaytest.Serve(t, fmt.Sprintf("redis: {addresses: [%q]}\n", r.redis.Addr)+configText)
	r.http1, r.http2 = httpClient(t, false), httpClient(t, true)
	r.conn = dial(t, r.GRPC)
	return r
}

// newEchoRig starts a testbackend and a gateway before it. settings are lines of
// the backend's config, rest is what else the gateway's config has.
func newEchoRig(t *testing.T, settings, rest string) (*rig, *testbackend.Server) {
	t.Helper()
	b := testbackend.Start(t)
	return newRig(t, echoConfig(b, settings)+rest), b
}

func echoConfig(b *testbackend.Server, settings string) string {
	text := fmt.Sprintf("backends:\n  - name: echo\n    endpoints: [%q]\n    default_binding: true\n", b.Addr)
	if !strings.Contains(settings, "reflection:") && !strings.Contains(settings, "proto:") && !strings.Contains(settings, "protoset:") {
		text += "    reflection: true\n"
	}
	for line := range strings.Lines(settings) {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	return text
}

// newShopRig starts a shop and a gateway before it. shopArgs are the shop's,
// settings lines of its config.
func newShopRig(t *testing.T, settings string, shopArgs ...string) *rig {
	t.Helper()
	shop := gatewaytest.StartShop(t, gatewaytest.FreeAddress(t), shopArgs...)
	text := fmt.Sprintf("backends:\n  - name: shop\n    endpoints: [%q]\n    reflection: true\n    default_binding: true\n", shop.Addr)
	for line := range strings.Lines(settings) {
		text += "    " + strings.TrimSpace(line) + "\n"
	}
	return newRig(t, text)
}

// issueToken puts a token into a Redis.
func issueToken(t testing.TB, redis string, o tenant.IssueOptions) tenant.Issued {
	t.Helper()
	var issued tenant.Issued
	withStore(t, redis, func(ctx context.Context, s *tenant.Store) error {
		var err error
		issued, err = s.Issue(ctx, o)
		return err
	})
	return issued
}

func withStore(t testing.TB, redis string, do func(context.Context, *tenant.Store) error) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Redis.Addresses = []string{redis}
	rdb, err := auth.Open(cfg.Redis)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	if err := do(t.Context(), tenant.NewStore(rdb, cfg.Auth)); err != nil {
		t.Fatal(err)
	}
}

// httpClient follows no redirects and decompresses nothing. h2: HTTP/2 in clear
// text.
func httpClient(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	if h2 {
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: testLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answer is an HTTP answer that was read to its end.
type answer struct {
	Status          int
	Proto           string
	Header, Trailer http.Header
	Body            string
}

// do sends a request without a credential. A body of "" is none; header
// alternates names and values.
func (r *rig) do(t testing.TB, client *http.Client, method, target, body string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	resp, err := client.Do(r.request(t, ctx, method, target, body, header...))
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", method, target, err)
	}
	return answer{resp.StatusCode, resp.Proto, resp.Header, resp.Trailer, string(text)}
}

func (r *rig) request(t testing.TB, ctx context.Context, method, target, body string, header ...string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.HTTP+target, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// call is do over HTTP/1.1 with the rig's credential.
func (r *rig) call(t testing.TB, method, target, body string, header ...string) answer {
	t.Helper()
	return r.do(t, r.http1, method, target, body, append([]string{"Authorization", r.bearer()}, header...)...)
}

func (r *rig) bearer() string { return "Bearer " + r.app + "." + r.token }

// as attaches the rig's credential to a gRPC call.
func (r *rig) as(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "app", r.app, "token", r.token)
}

// limited is a context for one test's calls with the rig's credential.
func (r *rig) limited(t testing.TB) context.Context {
	t.Helper()
	return r.as(limited(t))
}

func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// invoke makes a unary gRPC call with bytes.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, request []byte, opts ...grpc.CallOption) ([]byte, error) {
	in, out := testbackend.Frame(request), testbackend.Frame(nil)
	err := conn.Invoke(ctx, method, &in, &out, append(opts, grpc.ForceCodec(testbackend.Codec()))...)
	return out, err
}

// rawStream opens a gRPC stream of bytes.
func rawStream(t testing.TB, ctx context.Context, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) *bytesStream {
	t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		append(opts, grpc.ForceCodec(testbackend.Codec()))...)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return &bytesStream{s}
}

type bytesStream struct{ grpc.ClientStream }

func (s *bytesStream) send(data string) error {
	f := testbackend.Frame(data)
	return s.SendMsg(&f)
}

func (s *bytesStream) recv() (string, error) {
	var f testbackend.Frame
	err := s.RecvMsg(&f)
	return string(f), err
}

// ok checks a successful answer; want is JSON, "" for any.
func (a answer) ok(t testing.TB, want string) {
	t.Helper()
	if a.Status != http.StatusOK {
		t.Fatalf("status %d, want 200: %s", a.Status, a.Body)
	}
	if want != "" {
		sameJSON(t, a.Body, want)
	}
}

// failed checks an answer with a google.rpc.Status. reason is the gateway's; ""
// for a status of the backend.
func (a answer) failed(t testing.TB, httpStatus int, code codes.Code, reason string) {
	t.Helper()
	var got struct {
		Code    codes.Code
		Message string
		Details []struct {
			Type           string `json:"@type"`
			Reason, Domain string
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
		t.Fatalf("status %d, the body is no JSON: %q", a.Status, a.Body)
	}
	var gotReason string
	for _, d := range got.Details {
		if d.Type == "type.googleapis.com/google.rpc.ErrorInfo" && d.Domain == "rpcgate" {
			gotReason = d.Reason
		}
	}
	if a.Status != httpStatus || got.Code != code || gotReason != reason || got.Message == "" {
		t.Fatalf("got %d %v %q, want %d %v %q: %s", a.Status, got.Code, gotReason, httpStatus, code, reason, a.Body)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
}

// grpcFailed checks a gRPC error; see answer.failed.
func grpcFailed(t testing.TB, err error, code codes.Code, reason string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code || reasonOf(s) != reason {
		t.Fatalf("got %v %q, want %v %q: %v", s.Code(), reasonOf(s), code, reason, err)
	}
}

func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "rpcgate" {
			return info.GetReason()
		}
	}
	return ""
}

func sameJSON(t testing.TB, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%q is no JSON: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%q is no JSON: %v", want, err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// only returns the one call that reached the backend since it was last asked.
func only(t testing.TB, b *testbackend.Server) *testbackend.Call {
	t.Helper()
	calls := b.Take()
	if len(calls) != 1 {
		t.Fatalf("%d calls reached the backend, want 1", len(calls))
	}
	return calls[0]
}

// untouched checks that nothing reached the backend.
func untouched(t testing.TB, b *testbackend.Server) {
	t.Helper()
	for _, c := range b.Take() {
		t.Errorf("%s reached the backend", c.Method)
	}
}

// sawRequest checks the one request of the one call that reached the backend.
func sawRequest(t testing.TB, b *testbackend.Server, message, want string) {
	t.Helper()
	requests := only(t, b).Requests()
	if len(requests) != 1 {
		t.Fatalf("%d requests, want 1", len(requests))
	}
	sameJSON(t, b.JSON(message, requests[0]), want)
}

func basic(app, token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(app+":"+token))
}

// rawConn opens a connection to a port of the gateway. It ends with the test, and
// its reads and writes have testLimit.
func rawConn(t testing.TB, addr string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	return conn
}

// rawHTTP sends the bytes of a request that net/http's client would not send,
// and reads one answer, body and all.
func rawHTTP(t testing.TB, r *rig, request string) *http.Response {
	t.Helper()
	conn := rawConn(t, r.HTTP)
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// waitFor receives a value, or fails the test when none comes.
func waitFor[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(gatewaytest.Limit)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

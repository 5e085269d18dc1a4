package integration_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// What ends a line, or moves a terminal's cursor.
var lineEnders = []string{"\n", "\r\n", "\x1b[2J", "\x00", "\u2028", "\u0085", "\"}\n{\"level\":\"ERROR\""}

// Whatever callers write, each call is one line of the log, which is JSON and
// says of them what is true.
func TestLogInjection(t *testing.T) {
	t.Parallel()
	r, _ := newEchoRig(t, "", "log: {success_sample: 1}\n")
	must(t, r.echoing())
	for i, ender := range lineEnders {
		forged := ender + `{"level":"ERROR","msg":"forged","app":"root"}` + ender
		escaped := strings.NewReplacer("%", "%25").Replace(fmt.Sprintf("%x", forged))
		path := "/v1/nosuch/"
		for j := 0; j < len(escaped); j += 2 {
			path += "%" + escaped[j:j+2]
		}
		id := fmt.Sprintf("call-%d", i)
		_ = r.do(t, r.http1, "GET", path, "", "X-Request-Id", id)
		// As an app, as a token, as a method of gRPC, as a request id.
		_ = r.do(t, r.http1, "GET", "/v1/echo", "", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(forged+":"+forged)))
		_, _ = invoke(limited(t), r.conn, "/testbackend.Echo/"+strings.Map(printable, forged), nil)
		ctx := metadata.AppendToOutgoingContext(limited(t), "app", strings.Map(printable, forged), "token", "x", "x-request-id", strings.Map(printable, forged))
		_, _ = invoke(ctx, r.conn, echoUnary, nil)
		r.WaitLog(id)
	}
	for line := range strings.Lines(r.Output()) {
		var entry struct{ Level, Msg, App string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("a line is no JSON: %q", line)
		}
		if entry.Msg == "forged" || entry.App == "root" || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\x00\r\n") {
			t.Errorf("a forged line: %q", line)
		}
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// A header cannot be ended by what stands in it: not on the way in, where binary
// metadata may hold any byte, and not on the way out, whatever a backend says.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "headers: {request: {allow: ['x-free']}}", "")
	must(t, r.echoing())
	b.Take()
	evil := "a\r\nx-rpcgate-app: root\r\nSet-Cookie: a=b"

	// In: HTTP/1.1 has no way to write it, HTTP/2 has.
	c := dialFrames(t, r.HTTP)
	for i, name := range []string{"x-free", "grpc-metadata-free", "x-request-id", "x-forwarded-for", "user-agent"} {
		stream := uint32(2*i + 1)
		c.headers(stream, true, ":method", "GET", ":scheme", "http", ":path", "/v1/echo", ":authority", "x",
			"authorization", r.bearer(), name, evil)
		if a := c.answer(stream); !a.reset && a.last().get(":status") == "200" {
			for _, call := range b.Take() {
				for key, values := range call.Metadata {
					if strings.ContainsAny(strings.Join(values, ""), "\r\n") {
						t.Errorf("%s: the backend got %q: %q", name, key, values)
					}
				}
			}
		}
		if stream > 1 {
			continue
		}
		c = dialFrames(t, r.HTTP) // a connection that was given up answers no more
	}

	// Binary metadata has any byte, and stays binary: the backend gets what was
	// sent, under its own name, and nothing beside it.
	r.call(t, "GET", "/v1/echo", "", "Grpc-Metadata-Evil-Bin", base64.StdEncoding.EncodeToString([]byte(evil)),
		"Grpc-Metadata-X-Rpcgate-App-Bin", base64.StdEncoding.EncodeToString([]byte("root"))).ok(t, "")
	md := only(t, b).Metadata
	if got := md.Get("evil-bin"); len(got) != 1 || got[0] != evil {
		t.Errorf("binary metadata: %q", got)
	}
	if got := md.Get("x-rpcgate-app-bin"); len(got) > 0 {
		t.Errorf("a caller set x-rpcgate-app-bin: %q", got)
	}

	// Out: what gRPC lets a backend say in binary goes out as base64.
	b.Handle("Echo/Unary", func(s *testbackend.Stream) error {
		s.SetHeader(metadata.Pairs("evil-bin", evil))
		s.SetTrailer(metadata.Pairs("late-bin", evil))
		_, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(nil)
	})
	a := r.call(t, "GET", "/v1/echo", "")
	a.ok(t, "")
	if len(a.Header.Values("Set-Cookie")) > 0 || len(a.Header.Values("X-Rpcgate-App")) > 0 {
		t.Errorf("a backend's metadata became headers: %v", a.Header)
	}
	if got, _ := base64.StdEncoding.DecodeString(a.Header.Get("Grpc-Metadata-Evil-Bin")); string(got) != evil {
		t.Errorf("binary metadata of the backend: %v", a.Header)
	}
}

// JSON that nests as deeply as fits into a body is refused, or ignored where the
// field is not known, at a cost of its size: no stack, no memory beyond it.
func TestJSONDepthBombs(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "timeout: 20s", quiet)
	must(t, r.echoing())
	b.Take()
	before := r.footprint(t)
	const size = 3 << 20
	repeated := func(open, middle, end string) string {
		n := size / (len(open) + len(end))
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for name, body := range map[string]string{
		"messages":         `{"sub":` + repeated(`{"inner":`, "{}", "}") + "}",
		"unknown lists":    `{"nosuch":` + repeated("[", "1", "]") + "}",
		"unknown objects":  `{"nosuch":` + repeated(`{"a":`, "1", "}") + "}",
		"lists for a text": `{"text":` + repeated("[", "1", "]") + "}",
		"no end":           `{"nosuch":` + strings.Repeat("[", size),
		"a top-level list": repeated("[", "1", "]"),
	} {
		good := startLoad(t, 2, r.invoking(r.conn))
		began := time.Now()
		if a := r.call(t, "POST", "/v1/echo", body); a.Status != http.StatusBadRequest || len(a.Body) > 4<<10 {
			t.Errorf("%s: %d, with a body of %d bytes", name, a.Status, len(a.Body))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		good.stop()
		good.only()
	}
	b.Take()
	r.awaitFootprint(t, before)
}

// Where a call goes is the config's to say: nothing in a request names another
// host, endpoint or service.
func TestCallersCannotChooseWhereCallsGo(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "", "call_info: endpoint\n")
	must(t, r.echoing())
	b.Take()
	var lc net.ListenConfig
	trap, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	sprung := make(chan struct{})
	go func() {
		if conn, err := trap.Accept(); err == nil {
			_ = conn.Close()
			close(sprung)
		}
	}()
	at := trap.Addr().String()
	for _, header := range [][2]string{
		{"Host", at}, {"X-Forwarded-Host", at}, {"Forwarded", "host=" + at}, {"X-Real-Ip", at}, {"X-Original-Url", "http://" + at + "/"},
		{"X-Rpcgate-Endpoint", at}, {"Grpc-Metadata-X-Rpcgate-Endpoint", at}, {"X-Rewrite-Url", "http://" + at},
	} {
		req := r.request(t, limited(t), "GET", "/v1/echo", "", "Authorization", r.bearer(), header[0], header[1])
		if header[0] == "Host" {
			req.Host = at
		}
		resp, err := r.http1.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			if got := resp.Header.Get("X-Rpcgate-Endpoint"); got != b.Addr {
				t.Errorf("%v: served by %q, want %q", header, got, b.Addr)
			}
			if md := only(t, b).Metadata; strings.Contains(strings.Join(md.Get("x-rpcgate-endpoint"), ""), at) {
				t.Errorf("%v reached the backend", header)
			}
		}
	}
	// A whole URL in the request line, as for a proxy; and CONNECT.
	for _, line := range []string{"GET http://" + at + "/v1/echo HTTP/1.1", "CONNECT " + at + " HTTP/1.1", "GET //" + at + "/v1/echo HTTP/1.1"} {
		conn := r.slowCaller(t, line+"\r\nHost: "+at+"\r\nAuthorization: "+r.bearer()+"\r\nConnection: close\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(gatewaytest.Limit))
		_, _ = conn.Read(make([]byte, 1))
	}
	select {
	case <-sprung:
		t.Error("a caller made the gateway connect to where it said")
	default:
	}
}

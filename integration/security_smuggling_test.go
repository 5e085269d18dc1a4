package integration_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// Requests over HTTP/1.1 of which two readers could disagree where they end. A
// proxy before the gateway may be one of them: what it takes for a body must not
// be a request here. To the backend it cannot come: gRPC has frames, which are
// made anew.
func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	r, b := newEchoRig(t, "json: {emit_defaults: false}", "http: {address: '127.0.0.1:0', idle_timeout: 1s}\n"+quiet)
	must(t, r.echoing())
	b.Take()
	auth := "Authorization: " + r.bearer() + "\r\n"
	// What an attacker would like to be taken for the next one's request.
	smuggled := "POST /v1/echo HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 19\r\n\r\n{\"text\":\"smuggled\"}"
	head := "POST /v1/echo HTTP/1.1\r\nHost: x\r\n" + auth
	chunk := "2\r\n{}\r\n0\r\n\r\n"
	for name, test := range map[string]struct {
		request string
		status  int  // of the first answer; 0: none
		served  bool // it is a request like any other, with what follows it
	}{
		"two lengths":               {head + "Content-Length: 2\r\nContent-Length: 80\r\n\r\n{}" + smuggled, 400, false},
		"two lengths in one":        {head + "Content-Length: 2, 80\r\n\r\n{}" + smuggled, 400, false},
		"a length with a sign":      {head + "Content-Length: +2\r\n\r\n{}" + smuggled, 400, false},
		"a hexadecimal length":      {head + "Content-Length: 0x2\r\n\r\n{}" + smuggled, 400, false},
		"unknown transfer coding":   {head + "Transfer-Encoding: xchunked\r\n\r\n" + chunk + smuggled, 501, false},
		"two transfer codings":      {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk + smuggled, 501, false},
		"blank before the colon":    {head + "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}" + smuggled, 400, false},
		"folded line":               {head + "X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", 200, true}, // one value with a blank in it (RFC 9112, 5.2)
		"bare CR in a value":        {head + "X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}" + smuggled, 400, false},
		"null in a value":           {head + "X-A: b\x00\r\nContent-Length: 2\r\n\r\n{}" + smuggled, 400, false},
		"no host":                   {"POST /v1/echo HTTP/1.1\r\n" + auth + "Content-Length: 2\r\n\r\n{}" + smuggled, 400, false},
		"two hosts":                 {head + "Host: y\r\nContent-Length: 2\r\n\r\n{}" + smuggled, 400, false},
		"chunk of a negative size":  {head + "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n" + smuggled, 400, false},
		"chunk of a huge size":      {head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n" + smuggled, 400, false},
		"chunk without its end":     {head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n" + smuggled, 400, false},
		"HTTP/1.0 that is chunked":  {"POST /v1/echo HTTP/1.0\r\nHost: x\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n" + chunk + smuggled, 0, false},
		"a request in a body":       {head + "Content-Length: 2\r\n\r\n{}", 200, true},
		"a request that is chunked": {head + "Transfer-Encoding: chunked\r\n\r\n" + chunk, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			conn := rawConn(t, r.HTTP)
			_ = conn.SetDeadline(time.Now().Add(gatewaytest.Limit))
			if _, err := io.WriteString(conn, test.request); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			var statuses []int
			for {
				resp, err := http.ReadResponse(in, nil)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal("the connection stayed open")
				}
				if err != nil {
					break
				}
				statuses = append(statuses, resp.StatusCode)
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || test.served {
					break
				}
			}
			if len(statuses) > 1 {
				t.Errorf("%d answers: %v", len(statuses), statuses)
			}
			if len(statuses) == 0 && test.status != 0 || len(statuses) > 0 && test.status != 0 && statuses[0] != test.status {
				t.Errorf("answers %v, want %d", statuses, test.status)
			}
			for _, c := range b.Take() {
				if strings.Contains(string(c.Requests()[0]), "smuggled") {
					t.Error("the request in the body was served")
				}
			}
		})
	}
	// A length beside chunks: the chunks count (RFC 9112, 6.3), whatever the length
	// says. net/http goes on with the connection, where the RFC would close it.
	conn := rawConn(t, r.HTTP)
	_ = conn.SetDeadline(time.Now().Add(gatewaytest.Limit))
	if _, err := io.WriteString(conn, head+"Content-Length: 400\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := only(t, b).Requests(); resp.StatusCode != http.StatusOK || len(got[0]) != 0 {
		t.Errorf("a length beside chunks: %d, %q", resp.StatusCode, got)
	}
}

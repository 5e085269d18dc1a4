package integration_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// curl calls the protocols that need no library: JSON over HTTP with its
// streams, and Connect.
func TestCurl(t *testing.T) {
	t.Parallel()
	b := startClientsBackend(t)
	r := newRig(t, echoConfig(b.Server, ""))
	const unary, stream = "/testbackend.Echo/Unary", "/v1/echo:stream?texts=a&texts=b"
	connect := []string{"-H", "Content-Type: application/json", "-H", "Connect-Protocol-Version: 1"}
	for name, tc := range map[string]struct {
		path   string
		args   []string
		want   string // the body, or the last line of it with %{…} of --write-out
		status string
	}{
		"JSON":              {"/v1/echo:shout", []string{"-d", `{"text": "é"}`}, `"é"`, "200"},
		"JSON, HTTP/2":      {"/v1/echo:shout", []string{"--http2-prior-knowledge", "-d", `{"text": "é"}`}, `"é"`, "200"},
		"JSON, compressed":  {"/v1/echo:shout", []string{"--compressed", "-d", `{"text": "` + strings.Repeat("x", 5000) + `"}`}, `"` + strings.Repeat("x", 5000) + `"`, "200"},
		"error":             {"/v1/echo", []string{"-d", `{"text": "fail"}`}, `"code":3,"message":"text: 100% ungültig"`, "400"},
		"Connect":           {unary, append(connect, "-d", `{"text": "é"}`), `"text":"é"`, "200"},
		"Connect, error":    {unary, append(connect, "-d", `{"text": "fail"}`), `"code":"invalid_argument","message":"text: 100% ungültig"`, "400"},
		"Connect, deadline": {unary, append(connect, "-H", "Connect-Timeout-Ms: 100", "-d", `{"text": "wait"}`), `"code":"deadline_exceeded"`, "504"},
		"JSON, deadline":    {"/v1/echo", []string{"-H", "X-Request-Timeout: 100ms", "-d", `{"text": "wait"}`}, `"reason":"DEADLINE_EXCEEDED"`, "504"},
		"lines":             {stream, nil, "\n{\"text\":\"b\"", "200"},
		"array":             {stream, []string{"-H", "Accept: application/json"}, `,{"text":"b"`, "200"},
		"events":            {stream, []string{"-N", "-H", "Accept: text/event-stream"}, "\n\nevent: end\n", "200"},
		"upload":            {"/v1/echo:collect", []string{"-T", "-", "-X", "POST"}, `"text":"1,2,3"`, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testLimit)
			defer cancel()
			args := append([]string{"-sS", "-w", "\n%{http_code}", "-H", "Authorization: " + r.bearer()}, tc.args...)
			cmd := exec.CommandContext(ctx, "curl", append(args, "http://"+r.HTTP+tc.path)...)
			cmd.Stdin = strings.NewReader("{\"text\": \"1\"}\n{\"text\": \"2\"}\n{\"text\": \"3\"}\n")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if errors.Is(err, exec.ErrNotFound) {
				t.Fatal("curl is not installed; the tests need it (`make deps`; Debian, Ubuntu: apt-get install curl)")
			}
			i := bytes.LastIndexByte(out, '\n')
			if err != nil || i < 0 {
				t.Fatalf("%v: %s", err, &stderr)
			}
			body, status := string(out[:i]), string(out[i+1:])
			if status != tc.status || !strings.Contains(body, tc.want) {
				t.Errorf("got %s, want %s with %s in it:\n%s", status, tc.status, tc.want, body)
			}
		})
	}
}

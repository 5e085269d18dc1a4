package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/integration/ledger/ledgerpb"
)

// patience is how long a caller waits for an answer.
const patience = 12 * time.Second

// headerAttempts is where a gateway says how many attempts a call had.
const headerAttempts = "x-rpcgate-attempts"

// client calls one gateway. It makes each call once: neither its gRPC nor its
// HTTP repeats what was sent.
type client struct {
	http1, http2 *http.Client
	base         string
	conn         *grpc.ClientConn
	ledger       ledgerpb.LedgerClient
}

func newClient(tb testing.TB, g *gateway) *client {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+g.grpc,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		// What finds no connection was not sent, and may wait for one.
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond,
		}, MinConnectTimeout: time.Second}))
	if err != nil {
		tb.Fatal(err)
	}
	c := &client{conn: conn, ledger: ledgerpb.NewLedgerClient(conn), base: "http://" + g.http}
	c.http1, c.http2 = httpClient(false), httpClient(true)
	tb.Cleanup(func() {
		c.closeIdle()
		_ = conn.Close()
	})
	return c
}

func httpClient(h2 bool) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 100, DisableCompression: true}
	if h2 {
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	return &http.Client{Transport: transport}
}

func (c *client) closeIdle() {
	c.http1.CloseIdleConnections()
	c.http2.CloseIdleConnections()
}

// unsent reports whether a call failed before it was made: nobody listened.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// grpcCall makes a call over gRPC.
func (c *client) grpcCall(ctx context.Context, a app, r *call) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "app", a.id, "token", a.token, "x-request-id", r.tag)
	request := &ledgerpb.Request{Tag: r.tag}
	var header metadata.MD
	defer func() { r.attempts = strings.Join(header.Get(headerAttempts), ",") }()
	switch r.method {
	case look, post:
		ask := c.ledger.Look
		if r.method == post {
			ask = c.ledger.Post
		}
		e, err := ask(ctx, request, grpc.Header(&header))
		if err == nil {
			r.add(e)
		}
		return err
	default:
		request.Count = entries
		stream, err := c.ledger.Follow(ctx, request)
		if err != nil {
			return err
		}
		for {
			e, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			r.add(e)
		}
	}
}

func (c *call) add(e *ledgerpb.Entry) {
	c.answers = append(c.answers, entry{e.GetTag(), e.GetEndpoint(), e.GetExecution(), int(e.GetNumber())})
}

// onceBody keeps net/http from repeating a request by itself: it cannot be read
// again.
type onceBody struct{ io.Reader }

func (onceBody) Close() error { return nil }

// httpCall makes a call over HTTP with JSON.
func (c *client) httpCall(ctx context.Context, h *http.Client, a app, r *call) error {
	verb, target, body := http.MethodGet, "/v1/entries/"+r.tag, ""
	switch r.method {
	case post:
		verb, target, body = http.MethodPost, "/v1/entries", fmt.Sprintf(`{"tag":%q}`, r.tag)
	case follow:
		target += fmt.Sprintf(":follow?count=%d", entries)
	}
	req, err := http.NewRequestWithContext(ctx, verb, c.base+target, onceBody{strings.NewReader(body)})
	if err != nil {
		return err
	}
	if r.method == follow {
		req.Header.Set("Accept", "application/x-ndjson")
	}
	req.Header.Set("Authorization", "Bearer "+a.id+"."+a.token)
	req.Header.Set("X-Request-Id", r.tag)
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	r.attempts = resp.Header.Get(headerAttempts)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return r.read(resp.Body)
}

// read reads the answer to its end, one JSON value a line.
func (c *call) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var line struct {
			entry
			Error json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if line.Error != nil {
			return fmt.Errorf("the stream ended with %s", line.Error)
		}
		c.answers = append(c.answers, line.entry)
	}
	return lines.Err()
}

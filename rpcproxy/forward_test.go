package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

func TestUnary(t *testing.T) {
	var seen metadata.MD
	s := serve(t, func(srv any, ss grpc.ServerStream) error {
		seen, _ = metadata.FromIncomingContext(ss.Context())
		ss.SetTrailer(metadata.Pairs("t", "1", "t", "2", "bin-bin", "\x00\xff"))
		if err := ss.SetHeader(metadata.Pairs("h", "1", "h", "2")); err != nil {
			return err
		}
		return echo(srv, ss)
	})
	for _, compressor := range []string{"", "identity", "gzip"} {
		t.Run("compressor "+compressor, func(t *testing.T) {
			b := newBackend(t, s.addr, nil, Options{})
			text := "not \xff utf-8 " + strings.Repeat("x", 5000)
			ex := &exchange{requests: []string{text}}
			err := b.Forward(testContext(t), &Request{
				Method: testMethod, Metadata: metadata.Pairs("k", "v1", "k", "v2"), Compressor: compressor,
				Credential: Credential{App: "acme", TokenID: "id", Token: "secret"},
			}, ex)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ex.messages, []string{text}) {
				t.Errorf("answer: %.40q", ex.messages)
			}
			wantMD(t, "header", ex.header, "h", "1", "2")
			wantMD(t, "header", ex.header, "content-type")
			wantMD(t, "trailer", ex.trailer, "t", "1", "2")
			wantMD(t, "trailer", ex.trailer, "bin-bin", "\x00\xff")
			wantMD(t, "request", seen, "k", "v1", "v2")
			wantMD(t, "request", seen, "app", "acme")
			wantMD(t, "request", seen, "token", "secret")
			wantMD(t, "request", seen, "content-type", "application/grpc+proto")
		})
	}
}

func TestCredentialsByPoolKey(t *testing.T) {
	s := serve(t, answerWith(func(ctx context.Context) (string, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return fmt.Sprint(md["app"], md["token"]), nil
	}))
	for _, tt := range []struct {
		key, credentials string
		credential       Credential
		want             string
	}{
		{"credential", "pass", Credential{"acme", "i", "s"}, "[acme] [s]"},
		{"app", "pass", Credential{"acme", "i", "s"}, "[acme] [s]"},
		{"shared", "pass", Credential{"acme", "i", "s"}, "[acme] [s]"},
		{"credential", "drop", Credential{"acme", "i", "s"}, "[] []"},
		{"app", "drop", Credential{"acme", "i", "s"}, "[] []"},
		{"shared", "drop", Credential{"acme", "i", "s"}, "[] []"},
		{"credential", "pass", Credential{}, "[] []"},
		{"app", "pass", Credential{}, "[] []"},
		{"shared", "pass", Credential{}, "[] []"},
	} {
		t.Run(fmt.Sprint(tt.key, tt.credentials, tt.credential.IsZero()), func(t *testing.T) {
			b := newBackend(t, s.addr, func(c *config.Backend) {
				c.Pool.Key, c.Credentials = tt.key, tt.credentials
			}, Options{})
			got, err := unary(testContext(t), b, tt.credential, "")
			if err != nil || got != tt.want {
				t.Errorf("backend saw %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestStatusPassesUntouched(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "no übersee").WithDetails(&errdetails.ErrorInfo{Reason: "R", Domain: "D"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		status  *status.Status
		headers bool // sent before the status
		message bool // sent before the status
		trailer metadata.MD
	}{
		"trailers only":               {status: status.New(codes.PermissionDenied, "no")},
		"trailers only, with trailer": {status: status.New(codes.PermissionDenied, "no"), trailer: metadata.Pairs("t", "1")},
		"details":                     {status: detailed, trailer: metadata.Pairs("t", "1")},
		"header, no message":          {status: detailed, headers: true, trailer: metadata.Pairs("t", "1")},
		"header, bare trailer":        {status: status.New(codes.Unavailable, "down"), headers: true},
		"own words of grpc-go":        {status: status.New(codes.Unavailable, "error reading from server: EOF")},
		"too large over there":        {status: status.New(codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)")},
		"made-up code":                {status: status.New(codes.Code(4711), "?")},
		"after a message":             {status: status.New(codes.DataLoss, "lost"), headers: true, message: true},
	} {
		s := serve(t, func(_ any, ss grpc.ServerStream) error {
			ss.SetTrailer(tt.trailer)
			if tt.headers {
				if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
					return err
				}
			}
			if tt.message {
				if err := ss.SendMsg(&Frame{Data: message("m")}); err != nil {
					return err
				}
			}
			return tt.status.Err()
		})
		for _, r := range roads() {
			t.Run(name+"/"+road(r), func(t *testing.T) {
				b := newBackend(t, s.addr, nil, Options{})
				ex := &exchange{requests: []string{"x"}}
				err := b.Forward(testContext(t), &r, ex)
				var answered *StatusError
				if !errors.As(err, &answered) {
					t.Fatalf("Forward: %T %v, want a StatusError", err, err)
				}
				if !proto.Equal(answered.Status.Proto(), tt.status.Proto()) {
					t.Errorf("status %v, want %v", answered.Status, tt.status)
				}
				if (ex.headers == 1) != tt.headers {
					t.Errorf("%d headers, want some: %v", ex.headers, tt.headers)
				}
				for k, v := range tt.trailer {
					wantMD(t, "trailer", ex.trailer, k, v...)
				}
				if len(ex.trailer) != len(tt.trailer) {
					t.Errorf("trailer %v, want %v", ex.trailer, tt.trailer)
				}
			})
		}
	}
}

func roads() []Request {
	return []Request{
		{Method: testMethod},
		{Method: testMethod, ServerStreams: true},
		{Method: testMethod, ClientStreams: true},
		{Method: testMethod, ClientStreams: true, ServerStreams: true},
	}
}

func road(r Request) string {
	switch {
	case r.ClientStreams && r.ServerStreams:
		return "bidi"
	case r.ClientStreams:
		return "client stream"
	case r.ServerStreams:
		return "server stream"
	default:
		return "unary"
	}
}

func TestStreamKinds(t *testing.T) {
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(ss.Context())
		var in []string
		for {
			var f Frame
			err := ss.RecvMsg(&f)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			in = append(in, string(f.Data.Materialize()))
			f.Free()
		}
		ss.SetTrailer(metadata.Pairs("t", "1"))
		out := []string{strings.Join(in, "+")}
		if md["answers"] != nil {
			out = append(out, "", "last")
		}
		for _, text := range out {
			if err := ss.SendMsg(&Frame{Data: message(text)}); err != nil {
				return err
			}
		}
		return nil
	})
	b := newBackend(t, s.addr, nil, Options{})
	for _, tt := range []struct {
		client, server bool
		in, out        []string
	}{
		{true, false, []string{"a", "", "c"}, []string{"a++c"}},
		{true, false, nil, []string{""}},
		{false, true, []string{"a"}, []string{"a", "", "last"}},
		{true, true, []string{"a", "b"}, []string{"a+b", "", "last"}},
	} {
		r := Request{Method: testMethod, ClientStreams: tt.client, ServerStreams: tt.server}
		t.Run(road(r), func(t *testing.T) {
			if tt.server {
				r.Metadata = metadata.Pairs("answers", "3")
			}
			ex := &exchange{requests: tt.in}
			if err := b.Forward(testContext(t), &r, ex); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ex.messages, tt.out) || ex.headers != 1 {
				t.Errorf("got %q with %d headers, want %q", ex.messages, ex.headers, tt.out)
			}
			wantMD(t, "trailer", ex.trailer, "t", "1")
		})
	}
}

// Each side speaks only after it has heard the other.
func TestBidiTakesTurns(t *testing.T) {
	s := serve(t, echo)
	b := newBackend(t, s.addr, nil, Options{})
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	sent := 0
	ex := &exchange{
		recv: func() (mem.BufferSlice, error) {
			<-turn
			if sent == 100 {
				return nil, io.EOF
			}
			sent++
			return message(fmt.Sprint(sent)), nil
		},
		onMsg: func(string) error { turn <- struct{}{}; return nil },
	}
	if err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true}, ex); err != nil {
		t.Fatal(err)
	}
	if len(ex.messages) != 100 || ex.messages[99] != "100" {
		t.Errorf("%d messages", len(ex.messages))
	}
}

// The header comes before any message, and the status though the caller says
// nothing more.
func TestHeaderAtOnceAndEarlyStatus(t *testing.T) {
	end := make(chan struct{})
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
			return err
		}
		<-end
		return status.Error(codes.FailedPrecondition, "enough")
	})
	b := newBackend(t, s.addr, nil, Options{})
	over := make(chan struct{})
	returned := make(chan struct{})
	ex := &exchange{
		recv: func() (mem.BufferSlice, error) { // a caller that is silent
			<-over
			close(returned)
			return message("too late"), nil
		},
		onHeader: func(metadata.MD) error { close(end); return nil },
	}
	err := b.Forward(testContext(t), &Request{Method: testMethod, ClientStreams: true, ServerStreams: true}, ex)
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Forward: %v", err)
	}
	close(over)
	<-returned
}

func TestCallerCancels(t *testing.T) {
	begun, cancelled := make(chan struct{}), make(chan error, 1)
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		if err := ss.SendHeader(metadata.MD{}); err != nil {
			return err
		}
		begun <- struct{}{}
		<-ss.Context().Done()
		cancelled <- ss.Context().Err()
		return ss.Context().Err()
	})
	b := newBackend(t, s.addr, nil, Options{})
	for _, r := range roads() {
		t.Run(road(r), func(t *testing.T) {
			ctx, cancel := context.WithCancel(testContext(t))
			go func() {
				<-begun
				cancel()
			}()
			ex := &exchange{requests: []string{"x"}}
			if r.ClientStreams {
				ex.recv = func() (mem.BufferSlice, error) { <-ctx.Done(); return nil, status.FromContextError(ctx.Err()).Err() }
			}
			err := b.Forward(ctx, &r, ex)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Forward: %T %v, want Canceled", err, err)
			}
			select {
			case <-cancelled:
			case <-time.After(patience):
				t.Error("the backend did not learn of it")
			}
		})
	}
}

var errExchange = errors.New("bad json")

func TestExchangeFails(t *testing.T) {
	ended := make(chan struct{}, 1)
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		defer func() { ended <- struct{}{} }()
		var f Frame
		_ = ss.RecvMsg(&f)
		f.Free()
		_ = ss.SendHeader(metadata.Pairs("h", "1"))
		for ss.SendMsg(&Frame{Data: message("m")}) == nil {
			if ss.Context().Err() != nil {
				break
			}
			if md, _ := metadata.FromIncomingContext(ss.Context()); md["once"] != nil {
				return nil
			}
		}
		return nil
	})
	b := newBackend(t, s.addr, nil, Options{})
	for _, r := range roads() {
		if !r.ServerStreams {
			r.Metadata = metadata.Pairs("once", "1")
		}
		for name, tt := range map[string]struct {
			ex      *exchange
			reaches bool // the backend
		}{
			"recv": {&exchange{recv: func() (mem.BufferSlice, error) { return nil, errExchange }}, r.ClientStreams},
			"header": {&exchange{
				requests: []string{"x"}, onHeader: func(metadata.MD) error { return errExchange },
			}, true},
			"send": {&exchange{requests: []string{"x"}, onMsg: func(string) error { return errExchange }}, true},
		} {
			t.Run(road(r)+"/"+name, func(t *testing.T) {
				err := b.Forward(testContext(t), &r, tt.ex)
				var failed *ExchangeError
				if !errors.As(err, &failed) || !errors.Is(err, errExchange) {
					t.Fatalf("Forward: %T %v, want an ExchangeError", err, err)
				}
				if !tt.reaches {
					return
				}
				select {
				case <-ended:
				case <-time.After(patience):
					t.Error("the backend's side goes on")
				}
			})
		}
	}
	t.Run("no message", func(t *testing.T) {
		err := b.Forward(testContext(t), &Request{Method: testMethod}, &exchange{})
		var failed *ExchangeError
		if !errors.As(err, &failed) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Forward: %T %v, want an ExchangeError", err, err)
		}
	})
}

// A caller that does not read stops the backend, and one that is not read from
// stops sending: neither direction is buffered beyond HTTP/2's windows.
func TestBackPressure(t *testing.T) {
	const size = 32 << 10
	big := strings.Repeat("x", size)
	sent := make(chan int, 10_000)
	s := serve(t, func(_ any, ss grpc.ServerStream) error {
		for i := 0; ; i++ {
			if err := ss.SendMsg(&Frame{Data: message(big)}); err != nil {
				return err
			}
			sent <- i
		}
	})
	b := newBackend(t, s.addr, nil, Options{})
	ctx, cancel := context.WithCancel(testContext(t))
	first := make(chan struct{})
	ex := &exchange{requests: []string{"x"}, onMsg: func(string) error {
		select {
		case <-first:
		default:
			close(first)
		}
		<-ctx.Done() // never reads on
		return ctx.Err()
	}}
	result := make(chan error)
	go func() { result <- b.Forward(ctx, &Request{Method: testMethod, ServerStreams: true}, ex) }()
	<-first
	// The backend stands still when its count stops for a while.
	last, quiet := 0, time.NewTimer(200*time.Millisecond)
	for standing := false; !standing; {
		select {
		case last = <-sent:
			quiet.Reset(200 * time.Millisecond)
		case <-quiet.C:
			standing = true
		}
	}
	if last > 64 {
		t.Errorf("the backend sent %d messages of 32 KiB to a caller that read one", last)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Forward: %v", err)
	}
}

// The balancer is told of streams, whose latency says nothing.
func TestStreamsAreMarked(t *testing.T) {
	b := newBackend(t, "127.0.0.1:1", nil, Options{})
	for _, r := range roads() {
		c := newCall(t.Context(), b, nil, &r, nil)
		choice := balancer.ChoiceOf(c.first.outgoing(t.Context()))
		if choice == nil || choice.Stream != c.streams() {
			t.Errorf("%s: %+v", road(r), choice)
		}
	}
}

// What keeps its endpoint under ring_hash: the app, if the call names nothing
// else.
func TestHashKey(t *testing.T) {
	for name, tt := range map[string]struct {
		policy, key, app string
		keyed            bool
		want             string
	}{
		"another policy": {policy: "p2c_ewma", key: "k", app: "a"},
		"the app":        {policy: "ring_hash", app: "a", keyed: true, want: "a"},
		"a key":          {policy: "ring_hash", key: "k", app: "a", keyed: true, want: "k"},
		"nobody's":       {policy: "ring_hash"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, "127.0.0.1:1", func(c *config.Backend) { c.Balancer.Policy = tt.policy }, Options{})
			r := &Request{Method: testMethod, HashKey: tt.key, Credential: Credential{App: tt.app}}
			c := newCall(t.Context(), b, nil, r, nil)
			c.findKey()
			choice := balancer.ChoiceOf(c.first.outgoing(t.Context()))
			if choice.Keyed != tt.keyed || tt.keyed && choice.Key != fleet.HashKey(tt.want) {
				t.Errorf("keyed %v, %x", choice.Keyed, choice.Key)
			}
		})
	}
}

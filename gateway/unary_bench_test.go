package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/auth"
	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy"
)

// BenchmarkCall measures a whole small call, over loopback, with its caller and
// its backend in this process. What they cost is in all numbers: what the gateway
// itself does is the difference to the floor, which has the same servers and makes
// one Invoke. Allocations and their difference are exact on any machine, bar what
// grpc-go's batches make of chance; cpu-ns/op is only worth comparing within a run.
func BenchmarkCall(b *testing.B) {
	backend := serveEcho(b)
	conn, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	httpAddr, grpcAddr := serveGateway(b, backend)
	const text = `{"text":"0123456789012345678901234567890123456789012345678901234567890123456789"}`
	get := "GET /test.Echo/Unary?text=0123456789012345678901234567890123456789 HTTP/1.1\r\n" + callerHeaders + "\r\n"
	post := "POST /test.Echo/Unary HTTP/1.1\r\n" + callerHeaders + "Content-Type: application/json\r\n" +
		"Content-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text
	floor := serveJSONFloor(b, conn)
	b.Run("JSON POST", func(b *testing.B) { benchmarkHTTP(b, httpAddr, post) })
	b.Run("JSON POST, refused", func(b *testing.B) {
		benchmarkHTTP(b, httpAddr, strings.Replace(post, "rpg_0", "rpg_1", 1)) // a credential that is made up
	})
	b.Run("JSON GET", func(b *testing.B) { benchmarkHTTP(b, httpAddr, get) })
	b.Run("JSON POST, floor", func(b *testing.B) { benchmarkHTTP(b, floor, post) })
	b.Run("JSON GET, floor", func(b *testing.B) { benchmarkHTTP(b, floor, get) })
	b.Run("gRPC", func(b *testing.B) { benchmarkGRPC(b, grpcAddr) })
	b.Run("gRPC, floor", func(b *testing.B) { benchmarkGRPC(b, serveGRPCFloor(b, conn)) })
}

// callerHeaders are those of the requests that `make bench` measures, too.
const callerHeaders = "Host: gateway.example\r\nUser-Agent: Go-http-client/1.1\r\nX-App: acme\r\n" +
	"X-Token: rpg_0123456789_0123456789012345678901234567890123456789\r\n"

func listenLoopback(b *testing.B) net.Listener {
	b.Helper()
	lis, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return lis
}

func serveHandler(b *testing.B, h grpc.StreamHandler) (addr string) {
	b.Helper()
	lis := listenLoopback(b)
	srv := grpc.NewServer(grpc.ForceServerCodecV2(rpcproxy.RawCodec()), grpc.UnknownServiceHandler(func(s any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); method == grpc_health_v1.Health_Watch_FullMethodName {
			return status.Error(codes.Unimplemented, "no health here")
		}
		return h(s, stream)
	}))
	go func() { _ = srv.Serve(lis) }()
	b.Cleanup(srv.Stop)
	return lis.Addr().String()
}

func serveEcho(b *testing.B) (addr string) {
	b.Helper()
	return serveHandler(b, func(_ any, ss grpc.ServerStream) error {
		var f rpcproxy.Frame
		defer f.Free()
		if err := ss.RecvMsg(&f); err != nil {
			return err
		}
		return ss.SendMsg(&f)
	})
}

func serveGRPCFloor(b *testing.B, conn *grpc.ClientConn) (addr string) {
	b.Helper()
	codec := grpc.ForceCodecV2(rpcproxy.RawCodec())
	return serveHandler(b, func(_ any, ss grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(ss)
		var in, out rpcproxy.Frame
		defer in.Free()
		defer out.Free()
		if err := ss.RecvMsg(&in); err != nil {
			return err
		}
		if err := conn.Invoke(ss.Context(), method, &in, &out, codec); err != nil {
			return err
		}
		return ss.SendMsg(&out)
	})
}

func serveJSONFloor(b *testing.B, conn *grpc.ClientConn) (addr string) {
	b.Helper()
	request := append([]byte("\x0a\x46"), bytes.Repeat([]byte("0"), 70)...)
	codec := grpc.ForceCodecV2(rpcproxy.RawCodec())
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		in, out := rpcproxy.Frame{Data: mem.BufferSlice{mem.SliceBuffer(request)}}, rpcproxy.Frame{}
		defer out.Free()
		if err := conn.Invoke(r.Context(), "/test.Echo/Unary", &in, &out, codec); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		for _, data := range out.Data {
			_, _ = w.Write(data.ReadOnlyData())
		}
	})}
	lis := listenLoopback(b)
	go func() { _ = srv.Serve(lis) }()
	b.Cleanup(func() { _ = srv.Close() })
	return lis.Addr().String()
}

// serveGateway runs a gateway before the backend, with nothing but the look-up of
// its credentials made up.
func serveGateway(b *testing.B, backend string) (httpAddr, grpcAddr string) {
	b.Helper()
	dir := b.TempDir()
	source := `syntax = "proto3"; package test; service Echo { rpc Unary(X) returns (X); } message X { string text = 1; }`
	if err := os.WriteFile(filepath.Join(dir, "x.proto"), []byte(source), 0o600); err != nil {
		b.Fatal(err)
	}
	cfg := config.Defaults()
	cfg.HTTP.Address, cfg.GRPC.Address, cfg.Admin.Address = "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.Shutdown.Delay = 0
	echo := config.DefaultBackend("echo")
	echo.Target, echo.DefaultBinding = backend, true
	echo.Proto = &config.ProtoSources{Files: []string{"x.proto"}, ImportPaths: []string{dir}}
	cfg.Backends = []config.Backend{echo}
	cfg.Routes = []config.Route{{Method: "test.Echo/Unary", HTTP: &config.HTTPRule{Get: "/test.Echo/Unary"}}}
	reg := prometheus.NewRegistry()
	log := slog.New(slog.DiscardHandler)
	proxy, err := rpcproxy.New(echo, rpcproxy.Options{Registerer: reg, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	principal := auth.NewPrincipal(auth.Principal{App: "acme", TokenID: "0123456789"})
	g, err := New(cfg, Deps{
		Verifier: verifyFunc(func(c auth.Credential) (*auth.Principal, error) {
			if strings.HasPrefix(c.Token, "rpg_1") {
				return nil, auth.ErrInvalid
			}
			return principal, nil
		}),
		Backends: map[string]*rpcproxy.Backend{"echo": proxy}, Logger: log, Registerer: reg, Gatherer: reg,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, proxy.Close()); err != nil {
			b.Error(err)
		}
	})
	select {
	case <-g.Started():
	case err := <-ended:
		b.Fatal(err)
	}
	return g.HTTPAddr().String(), g.GRPCAddr().String()
}

// inParallel has several callers make calls, each with what dial gives it, and
// reports what they cost.
func inParallel(b *testing.B, dial func() (call func() error, hangUp func(), err error)) {
	b.Helper()
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.SetParallelism(4)
	b.ReportAllocs()
	start := cpu()
	b.RunParallel(func(pb *testing.PB) {
		call, hangUp, err := dial()
		if err != nil {
			b.Error(err)
			return
		}
		defer hangUp()
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

func benchmarkHTTP(b *testing.B, addr, request string) {
	b.Helper()
	inParallel(b, func() (func() error, func(), error) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		in, out := bufio.NewReader(conn), []byte(request)
		return func() error {
			if _, err := conn.Write(out); err != nil {
				return err
			}
			return skipAnswer(in)
		}, func() { _ = conn.Close() }, nil
	})
}

// skipAnswer reads an answer of HTTP/1.1 without allocating.
func skipAnswer(in *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 401 ")):
			return errors.New(string(line))
		case ok:
			for _, c := range digits {
				length = 10*length + int(c-'0')
			}
		case len(line) == 0:
			_, err := in.Discard(length)
			return err
		}
	}
}

func benchmarkGRPC(b *testing.B, addr string) {
	b.Helper()
	request := mem.BufferSlice{mem.SliceBuffer(append([]byte("\x0a\x46"), bytes.Repeat([]byte("0"), 70)...))}
	codec := grpc.ForceCodecV2(rpcproxy.RawCodec())
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(callerToken{}))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	inParallel(b, func() (func() error, func(), error) {
		return func() error {
			var out rpcproxy.Frame
			defer out.Free()
			return conn.Invoke(context.Background(), "/test.Echo/Unary", &rpcproxy.Frame{Data: request}, &out, codec)
		}, func() {}, nil
	})
}

// callerToken are the headers that callers of gRPC authenticate themselves by.
type callerToken struct{}

func (callerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"app": "acme", "token": "rpg_0123456789_0123456789012345678901234567890123456789"}, nil
}

func (callerToken) RequireTransportSecurity() bool { return false }

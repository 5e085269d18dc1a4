package gateway

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A panic in a front end itself, here for want of a snapshot, is one failed
// request: told as such, logged with its stack, and the next one is served.
func TestPanicOutsideThePipeline(t *testing.T) {
	g, text, _ := newTestGateway(verifyFunc(valid))
	srv, err := newGRPCServer(g, g.cfg.GRPC, newHealthServer())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := conn.Invoke(t.Context(), "/shop.UserService/GetUser", &emptypb.Empty{}, &emptypb.Empty{})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("over gRPC: %v", err)
		}
	}
	_ = conn.Close()
	srv.Stop()
	<-served

	front, err := newHTTPFront(g, g.cfg.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(front)
	defer web.Close()
	if resp, err := http.Get(web.URL); err == nil {
		_ = resp.Body.Close()
		t.Errorf("over HTTP: %v", resp.Status)
	}
	web.Close()
	if n := strings.Count(text.String(), "panic outside the pipeline"); n < 3 || !strings.Contains(text.String(), "goroutine") {
		t.Errorf("%d panics are logged:\n%s", n, text)
	}
}

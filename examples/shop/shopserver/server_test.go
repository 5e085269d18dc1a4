package shopserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
	"github.com/rpcgate/rpcgate/examples/shop/shopserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a shop; stop ends its context and waits for it.
func serve(t *testing.T, o shopserver.Options) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- shopserver.Serve(ctx, lis, o) }()
	conn, err = grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(func() { conn.Close(); stop() })
	return conn, stop
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestUnary(t *testing.T) {
	conn, _ := serve(t, shopserver.Options{})
	ctx := testContext(t)
	users, orders := shoppb.NewUserServiceClient(conn), shoppb.NewOrderServiceClient(conn)

	user, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{Name: "ada"})
	if err != nil || user.GetId() <= 0 || user.GetName() != "ada" {
		t.Fatalf("CreateUser = %v, %v", user, err)
	}
	order, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: user.GetId(), Product: "tea"})
	if err != nil || order.GetUserId() != user.GetId() || order.GetProduct() != "tea" {
		t.Fatalf("CreateOrder = %v, %v", order, err)
	}

	for _, tc := range []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"user", func() error { _, err := users.GetUser(ctx, &shoppb.GetUserRequest{Id: user.GetId()}); return err }, codes.OK},
		{"order", func() error { _, err := orders.GetOrder(ctx, &shoppb.GetOrderRequest{Id: order.GetId()}); return err }, codes.OK},
		{"user without name", func() error { _, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{}); return err }, codes.InvalidArgument},
		{"no user id", func() error { _, err := users.GetUser(ctx, &shoppb.GetUserRequest{}); return err }, codes.InvalidArgument},
		{"unknown user", func() error { _, err := users.GetUser(ctx, &shoppb.GetUserRequest{Id: 404}); return err }, codes.NotFound},
		{"negative user", func() error { _, err := users.GetUser(ctx, &shoppb.GetUserRequest{Id: -1}); return err }, codes.NotFound},
		{"order without user", func() error {
			_, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{Product: "tea"})
			return err
		}, codes.InvalidArgument},
		{"order without product", func() error {
			_, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: user.GetId()})
			return err
		}, codes.InvalidArgument},
		{"order of unknown user", func() error {
			_, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: 404, Product: "tea"})
			return err
		}, codes.NotFound},
		{"no order id", func() error { _, err := orders.GetOrder(ctx, &shoppb.GetOrderRequest{}); return err }, codes.InvalidArgument},
		{"unknown order", func() error { _, err := orders.GetOrder(ctx, &shoppb.GetOrderRequest{Id: 404}); return err }, codes.NotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call()
			s := status.Convert(err)
			if s.Code() != tc.want {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err != nil && len(s.Details()) != 1 {
				t.Errorf("details = %v, want one", s.Details())
			}
		})
	}
}

func TestWatchOrders(t *testing.T) {
	conn, stop := serve(t, shopserver.Options{})
	ctx := testContext(t)
	users, orders := shoppb.NewUserServiceClient(conn), shoppb.NewOrderServiceClient(conn)
	create := func(name string) *shoppb.User {
		u, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	order := func(u *shoppb.User, product string) {
		if _, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: u.GetId(), Product: product}); err != nil {
			t.Fatal(err)
		}
	}
	ada, bob := create("ada"), create("bob")
	order(ada, "tea")
	order(bob, "beer")
	order(ada, "milk")

	watch, err := orders.WatchOrders(ctx, &shoppb.WatchOrdersRequest{UserId: ada.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		o, err := watch.Recv()
		if err != nil || o.GetProduct() != want {
			t.Fatalf("Recv = %v, %v, want %s", o, err, want)
		}
	}
	expect("tea")
	expect("milk")
	order(bob, "crisps")
	order(ada, "sugar")
	expect("sugar")

	unknown, err := orders.WatchOrders(ctx, &shoppb.WatchOrdersRequest{UserId: 404})
	if err == nil {
		_, err = unknown.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("watching an unknown user: %v", err)
	}

	stop() // must not wait for the watcher
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable || errors.Is(err, io.EOF) {
		t.Errorf("after the stop: %v, want Unavailable", err)
	}
}

func TestCredentialCheck(t *testing.T) {
	conn, _ := serve(t, shopserver.Options{App: "acme", Token: "s3cret"})
	users := shoppb.NewUserServiceClient(conn)
	for _, tc := range []struct {
		name string
		md   metadata.MD
		want codes.Code
	}{
		{"right", metadata.Pairs("app", "acme", "token", "s3cret"), codes.OK},
		{"wrong token", metadata.Pairs("app", "acme", "token", "guess"), codes.Unauthenticated},
		{"wrong app", metadata.Pairs("app", "other", "token", "s3cret"), codes.Unauthenticated},
		{"none", nil, codes.Unauthenticated},
		{"twice", metadata.Pairs("app", "acme", "token", "s3cret", "token", "s3cret"), codes.Unauthenticated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := metadata.NewOutgoingContext(testContext(t), tc.md)
			_, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{Name: "ada"})
			if status.Code(err) != tc.want {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	// Probes carry no credential.
	_, err := grpc_health_v1.NewHealthClient(conn).Check(testContext(t), &grpc_health_v1.HealthCheckRequest{Service: "shop.UserService"})
	if err != nil {
		t.Errorf("health: %v", err)
	}
}

package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// Every shop method over JSON, by its annotation and by the default binding,
// over HTTP/1.1 and HTTP/2; and over gRPC.
func TestShop(t *testing.T) {
	t.Parallel()
	r := newShopRig(t, "")
	for _, tc := range []struct {
		name   string
		client *http.Client
		proto  string
	}{{"HTTP1", r.http1, "HTTP/1.1"}, {"h2c", r.http2, "HTTP/2.0"}} {
		t.Run(tc.name, func(t *testing.T) {
			call := func(method, path, body string) answer {
				t.Helper()
				a := r.do(t, tc.client, method, path, body, "Authorization", r.bearer())
				if a.Proto != tc.proto {
					t.Errorf("the answer came over %s", a.Proto)
				}
				return a
			}
			shopOverJSON(t, call)
		})
	}
	t.Run("gRPC", func(t *testing.T) { shopOverGRPC(t, r) })
	t.Run("ndjson", func(t *testing.T) { watchOverJSON(t, r) })
}

func shopOverJSON(t *testing.T, call func(method, path, body string) answer) {
	t.Helper()
	user := call("POST", "/v1/users", `{"name":"Ada"}`)
	user.ok(t, "")
	id := between(t, user.Body, `"id":"`, `"`)
	sameJSON(t, user.Body, `{"id":"`+id+`","name":"Ada"}`)
	call("GET", "/v1/users/"+id, "").ok(t, user.Body)
	call("POST", "/shop.UserService/GetUser", `{"id":`+id+`}`).ok(t, user.Body)
	call("POST", "/shop.UserService/CreateUser", `{"name":"Bob"}`).ok(t, "")

	order := call("POST", "/v1/orders", `{"user_id":"`+id+`","product":"tea"}`)
	order.ok(t, "")
	oid := between(t, order.Body, `"id":"`, `"`)
	sameJSON(t, order.Body, `{"id":"`+oid+`","userId":"`+id+`","product":"tea"}`)
	call("GET", "/v1/orders/"+oid, "").ok(t, order.Body)
	call("POST", "/shop.OrderService/GetOrder", `{"id":"`+oid+`"}`).ok(t, order.Body)
	call("POST", "/shop.OrderService/CreateOrder", `{"userId":`+id+`,"product":"milk"}`).ok(t, "")

	call("GET", "/v1/users/999999", "").failed(t, 404, codes.NotFound, "")
	call("GET", "/v1/orders/999999", "").failed(t, 404, codes.NotFound, "")
	call("GET", "/v1/users/999999/orders:watch", "").failed(t, 404, codes.NotFound, "")
	call("POST", "/v1/users", `{}`).failed(t, 400, codes.InvalidArgument, "")
	call("GET", "/v1/users/seven", "").failed(t, 400, codes.InvalidArgument, "BAD_REQUEST")
}

func between(t testing.TB, s, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(s, from)
	value, _, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%q has nothing between %q and %q", s, from, to)
	}
	return value
}

func shopOverGRPC(t *testing.T, r *rig) {
	t.Helper()
	ctx := r.limited(t)
	users, orders := shoppb.NewUserServiceClient(r.conn), shoppb.NewOrderServiceClient(r.conn)
	user, err := users.CreateUser(ctx, &shoppb.CreateUserRequest{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := users.GetUser(ctx, &shoppb.GetUserRequest{Id: user.GetId()}); err != nil || got.GetName() != "Ada" {
		t.Fatalf("GetUser: %v, %v", got, err)
	}
	order, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: user.GetId(), Product: "tea"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := orders.GetOrder(ctx, &shoppb.GetOrderRequest{Id: order.GetId()}); err != nil || got.GetProduct() != "tea" {
		t.Fatalf("GetOrder: %v, %v", got, err)
	}
	watching, leave := context.WithCancel(ctx)
	defer leave()
	watch, err := orders.WatchOrders(watching, &shoppb.WatchOrdersRequest{UserId: user.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetId() != order.GetId() {
		t.Fatalf("watch: %v, %v", got, err)
	}
	second, err := orders.CreateOrder(ctx, &shoppb.CreateOrderRequest{UserId: user.GetId(), Product: "milk"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetId() != second.GetId() {
		t.Fatalf("watch: %v, %v", got, err)
	}
	leave()
	_, err = watch.Recv()
	grpcFailed(t, err, codes.Canceled, "")

	_, err = users.GetUser(ctx, &shoppb.GetUserRequest{Id: 999999})
	grpcFailed(t, err, codes.NotFound, "")
	_, err = orders.GetOrder(ctx, &shoppb.GetOrderRequest{Id: 999999})
	grpcFailed(t, err, codes.NotFound, "")
}

// watchOverJSON reads each line of a watch before there is a next order.
func watchOverJSON(t *testing.T, r *rig) {
	t.Helper()
	user := r.call(t, "POST", "/v1/users", `{"name":"Ada"}`)
	id := between(t, user.Body, `"id":"`, `"`)
	order := func(product string) {
		r.call(t, "POST", "/v1/orders", fmt.Sprintf(`{"userId":%s,"product":%q}`, id, product)).ok(t, "")
	}
	ctx, leave := context.WithCancel(limited(t))
	defer leave()
	order("tea")
	resp, err := r.http1.Do(r.request(t, ctx, "GET", "/v1/users/"+id+"/orders:watch", "", "Authorization", r.bearer()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s, %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	for i, product := range []string{"tea", "milk", "bread"} {
		if i > 0 {
			order(product)
		}
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		if got := between(t, lines.Text(), `"product":"`, `"`); got != product {
			t.Fatalf("line %q, want product %s", lines.Text(), product)
		}
	}
}

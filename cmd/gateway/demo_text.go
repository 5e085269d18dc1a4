package main

import (
	"io"
	"strings"
	"text/template"

	"github.com/rpcgate/rpcgate/routes"
)

// demoReady is what the demo tells once it takes calls. The addresses are
// host:port as this machine can dial them.
type demoReady struct {
	HTTP, GRPC, Admin, Redis string
	App, Token               string
}

// demoText is what the demo prints. Each command stands on a line of its own,
// to be pasted as it is; ids begin with 1, so that they work in this order.
const demoText = `rpcgate demo

HTTP   {{.HTTP}}  (documentation: http://{{.HTTP}}/docs/)
gRPC   {{.GRPC}}
admin  {{.Admin}}  (http://{{.Admin}}/metrics)
Redis  {{.Redis}}  (built in, for trying out only: it keeps nothing)

app    {{.App}}
token  {{.Token}}

Routes:
{{.Routes}}
Calls to paste, in this order:

# create a user
curl -sS -H 'Authorization: Bearer {{.App}}.{{.Token}}' -d '{"name": "Ada"}' http://{{.HTTP}}/v1/users
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: {{.Token}}' -d '{"name": "Ada"}' {{.GRPC}} shop.UserService/CreateUser
# get it
curl -sS -H 'Authorization: Bearer {{.App}}.{{.Token}}' http://{{.HTTP}}/v1/users/1
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: {{.Token}}' -d '{"id": 1}' {{.GRPC}} shop.UserService/GetUser
# create an order
curl -sS -H 'Authorization: Bearer {{.App}}.{{.Token}}' -d '{"userId": 1, "product": "tea"}' http://{{.HTTP}}/v1/orders
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: {{.Token}}' -d '{"user_id": 1, "product": "tea"}' {{.GRPC}} shop.OrderService/CreateOrder
# get it
curl -sS -H 'Authorization: Bearer {{.App}}.{{.Token}}' http://{{.HTTP}}/v1/orders/1
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: {{.Token}}' -d '{"id": 1}' {{.GRPC}} shop.OrderService/GetOrder
# watch the user's orders: a stream, until you stop it
curl -sSN -H 'Authorization: Bearer {{.App}}.{{.Token}}' http://{{.HTTP}}/v1/users/1/orders:watch
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: {{.Token}}' -d '{"user_id": 1}' {{.GRPC}} shop.OrderService/WatchOrders
# the same as server-sent events, for web pages
curl -sSN -H 'Authorization: Bearer {{.App}}.{{.Token}}' -H 'Accept: text/event-stream' http://{{.HTTP}}/v1/users/1/orders:watch
# a method by Connect; gRPC and gRPC-Web clients find it at the same address
curl -sS -H 'Authorization: Bearer {{.App}}.{{.Token}}' -H 'Content-Type: application/json' -H 'Connect-Protocol-Version: 1' -d '{"id": 1}' http://{{.HTTP}}/shop.UserService/GetUser
# refused: the token is wrong
curl -sS -H 'Authorization: Bearer {{.App}}.wrong' http://{{.HTTP}}/v1/users/1
grpcurl -plaintext -H 'app: {{.App}}' -H 'token: wrong' -d '{"id": 1}' {{.GRPC}} shop.UserService/GetUser

Ctrl-C ends it.
`

func (d demoReady) print(w io.Writer, table *routes.Table) error {
	text, err := template.New("demo").Parse(demoText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := printRoutes(&b, table.Routes()); err != nil {
		return err
	}
	return text.Execute(w, struct {
		demoReady
		Routes string
	}{d, b.String()})
}

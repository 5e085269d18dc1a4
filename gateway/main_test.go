package gateway

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
)

func TestMain(m *testing.M) {
	balancer.Register() // as main does; gRPC's registry is for nobody else to write to
	goleak.VerifyTestMain(m)
}

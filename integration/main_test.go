package integration_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

func TestMain(m *testing.M) {
	// toxiproxy's goroutines do not all end with connections that a fault closes:
	// one may wait for another that has ended.
	goleak.VerifyTestMain(withBinaries{m},
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"))
}

// withBinaries removes the binaries under test once the tests are done.
type withBinaries struct{ *testing.M }

func (w withBinaries) Run() int { return gatewaytest.Main(w.M) }

package integration_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(withBinaries{m}) }

// withBinaries removes the binaries under test once the tests are done.
type withBinaries struct{ *testing.M }

func (w withBinaries) Run() int { return gatewaytest.Main(w.M) }

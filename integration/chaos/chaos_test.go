package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

var (
	seed   = flag.Uint64("chaos.seed", 0, "the first seed; 0: two short runs, as a test")
	seeds  = flag.Uint64("chaos.seeds", 1, "how many seeds, one after the other")
	length = flag.Duration("chaos.time", 45*time.Second, "how long the load of each seed lasts")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(gatewaytest.Main(m))
}

// The short runs: between them they have most kinds of faults, and four endpoints
// of five sick at once.
const (
	firstShort, secondShort uint64 = 10, 144
	shortLength                    = 12 * time.Second
)

// Whatever goes wrong with endpoints, stores and gateways: no call is answered
// with another's answer, none that may not be repeated is executed twice, and
// one in ten thousand at most of those that may be is lost while one endpoint of
// five is healthy.
func TestChaos(t *testing.T) {
	runs, o := []uint64{firstShort, secondShort}, Options{Length: shortLength, Pace: 40 * time.Millisecond}
	if *seed != 0 {
		runs, o = nil, Options{Length: *length, Pace: 15 * time.Millisecond}
		for i := range *seeds {
			runs = append(runs, *seed+i)
		}
	}
	for _, o.Seed = range runs {
		t.Run(fmt.Sprint("seed ", o.Seed), func(t *testing.T) { Run(t, o) })
	}
}

package telemetry

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	calls := NewCalls(reg)
	o := calls.Bind("shop", "/v1/users/{id}", "http")
	o.Start()
	o.Start()
	o.Start()
	o.Done(codes.OK, 3*time.Millisecond)
	o.Done(codes.NotFound, time.Millisecond)
	unrouted := calls.BindUnrouted("grpc")
	unrouted.Start()
	unrouted.Done(codes.Code(4711), 0)

	wantSamples(t, scrape(t, reg, "rpcgate_calls_total", "rpcgate_calls_in_flight"),
		`rpcgate_calls_in_flight{backend="",protocol="grpc",route=""} 0`,
		`rpcgate_calls_in_flight{backend="shop",protocol="http",route="/v1/users/{id}"} 1`,
		`rpcgate_calls_total{backend="",code="OTHER",protocol="grpc",route=""} 1`,
		`rpcgate_calls_total{backend="shop",code="NOT_FOUND",protocol="http",route="/v1/users/{id}"} 1`,
		`rpcgate_calls_total{backend="shop",code="OK",protocol="http",route="/v1/users/{id}"} 1`,
	)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rpcgate_call_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); len(h.GetBucket()) == 0 || h.Schema == nil {
				t.Errorf("a histogram is not both classic and native: %v", h)
			}
		}
	}
}

// Two tables bound one after the other, and two gateways on one registry, count on in the same series.
func TestBindAgainSharesSeries(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	for range 2 {
		o := NewCalls(reg).Bind("shop", "r", "grpc")
		o.Start()
		o.Done(codes.OK, 0)
	}
	wantSamples(t, scrape(t, reg, "rpcgate_calls_total"),
		`rpcgate_calls_total{backend="shop",code="OK",protocol="grpc",route="r"} 2`)
}

func TestObserverFromManyGoroutines(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	o := NewCalls(reg).Bind("shop", "r", "grpc")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 340 {
				o.Start()
				o.Done(codes.Code(i%17), time.Microsecond)
			}
		})
	}
	wg.Wait()
	want := []string{`rpcgate_calls_in_flight{backend="shop",protocol="grpc",route="r"} 0`}
	for c := range codeCount - 1 {
		want = append(want, fmt.Sprintf(`rpcgate_calls_total{backend="shop",code=%q,protocol="grpc",route="r"} %d`, codeName(c), 8*20))
	}
	wantSamples(t, scrape(t, reg, "rpcgate_calls_total", "rpcgate_calls_in_flight"), want...)
}

func TestObserverAllocatesNothing(t *testing.T) {
	o := NewCalls(nil).Bind("shop", "r", "grpc")
	one := func() {
		o.Start()
		o.Done(codes.OK, time.Millisecond)
	}
	one()
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations per call", n)
	}
}

func TestCodeNames(t *testing.T) {
	t.Parallel()
	for c, want := range map[codes.Code]string{
		codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unauthenticated: "UNAUTHENTICATED", 17: "OTHER", 1 << 31: "OTHER",
	} {
		if got := codeName(codeIndex(c)); got != want {
			t.Errorf("code %d is %q, want %q", c, got, want)
		}
	}
}

func TestAuthOutcomes(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	a := NewAuth(reg)
	a.Count(AuthAccepted)
	a.Count(AuthInvalid)
	a.Count(AuthInvalid)
	a.Count(AuthOutcome(99))
	a.Count(AuthOutcome(-1))
	wantSamples(t, scrape(t, reg, "rpcgate_auth_total"),
		`rpcgate_auth_total{outcome="abandoned"} 0`,
		`rpcgate_auth_total{outcome="accepted"} 1`,
		`rpcgate_auth_total{outcome="expired"} 0`,
		`rpcgate_auth_total{outcome="invalid"} 2`,
		`rpcgate_auth_total{outcome="malformed"} 0`,
		`rpcgate_auth_total{outcome="missing"} 0`,
		`rpcgate_auth_total{outcome="other"} 2`,
		`rpcgate_auth_total{outcome="revoked"} 0`,
		`rpcgate_auth_total{outcome="skipped"} 0`,
		`rpcgate_auth_total{outcome="source"} 0`,
		`rpcgate_auth_total{outcome="suspended"} 0`,
		`rpcgate_auth_total{outcome="throttled"} 0`,
		`rpcgate_auth_total{outcome="unavailable"} 0`,
	)
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	reg := NewRegistry(Build{Version: "v1.2.3", Revision: "abc"})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, want := range []string{"rpcgate_build_info", "go_goroutines", "process_cpu_seconds_total"} {
		if !names[want] {
			t.Errorf("the registry lacks %s", want)
		}
	}
}

func TestRegisterPanicsOnAMistake(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x", Help: "one"}))
	defer func() {
		if recover() == nil {
			t.Error("a second metric of the same name and another kind was registered")
		}
	}()
	register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: "x", Help: "other"}))
}

func BenchmarkCallObserver(b *testing.B) {
	o := NewCalls(nil).Bind("shop", "/v1/users/{id}", "http")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o.Start()
			o.Done(codes.OK, 1300*time.Microsecond)
		}
	})
}

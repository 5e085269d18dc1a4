package balancer_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v3 "github.com/cncf/xds/go/xds/data/orca/v3"
	orcaservice "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/resolver/manual"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// reporting is endpoints that report their load, the first of which is the
// busiest, and a connection to them.
type reporting struct {
	*cluster

	streams atomic.Int64 // of reports, that are open
	passed  atomic.Int64 // of the fleet's time, beyond the real one
}

func startReporting(t *testing.T, mode string) *reporting {
	t.Helper()
	cfg := config.DefaultBackend("test")
	cfg.Balancer.Policy, cfg.Balancer.LoadReports = "weighted_round_robin", mode
	r := &reporting{}
	start := time.Now()
	f, err := fleet.New(cfg, fleet.Options{Now: func() time.Duration {
		return time.Since(start) + time.Duration(r.passed.Load())
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.cluster = &cluster{resolver: manual.NewBuilderWithScheme("manual"), fleet: f}
	for i := range 3 {
		e := &endpoint{free: make(chan struct{})}
		recorder := orca.NewServerMetricsRecorder()
		recorder.SetApplicationUtilization([]float64{0.9, 0.3, 0.3}[i])
		recorder.SetQPS(100)
		serve := func(srv any, s grpc.ServerStream) error {
			orca.CallMetricsRecorderFromContext(s.Context()) // or else grpc-go sends no report
			return e.serve(srv, s)
		}
		server := grpc.NewServer(orca.CallMetricsServerOption(recorder), grpc.UnknownServiceHandler(serve))
		orcaservice.RegisterOpenRcaServiceServer(server, reporter{group: r, recorder: recorder})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		e.addr = l.Addr().String()
		var served sync.WaitGroup
		served.Go(func() { _ = server.Serve(l) })
		t.Cleanup(func() { server.Stop(); served.Wait() })
		r.endpoints = append(r.endpoints, e)
	}
	r.resolver.InitialState(r.state(r.endpoints...))
	r.conn = r.dial(t, cfg.Balancer.Policy)
	return r
}

// reporter reports at once, and then as asked. grpc-go's own waits for 30s.
type reporter struct {
	orcaservice.UnimplementedOpenRcaServiceServer

	group    *reporting
	recorder orca.ServerMetricsRecorder
}

func (r reporter) StreamCoreMetrics(_ *orcaservice.OrcaLoadReportRequest, s orcaservice.OpenRcaService_StreamCoreMetricsServer) error {
	r.group.streams.Add(1)
	defer r.group.streams.Add(-1)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m := r.recorder.ServerMetrics()
		if err := s.Send(&v3.OrcaLoadReport{ApplicationUtilization: m.AppUtilization, RpsFractional: m.QPS}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

// wantByLoad checks that the endpoint that is three times as busy gets a third
// of another's calls.
func (r *reporting) wantByLoad(t *testing.T) {
	t.Helper()
	r.callAll(t, 30, 1, whichever)
	waitFor(t, "weights by reports", func() bool {
		r.passed.Add(int64(time.Second)) // reports count after a while
		r.callAll(t, 3, 1, whichever)
		all := r.fleet.View()
		return len(all) == 3 && all[0].Weight > 110 && all[0].Weight < 112 && all[1].Weight > 333 && all[2].Weight > 333
	})
	r.passed.Add(int64(time.Minute)) // and are looked at every now and then
	r.callAll(t, 3, 1, whichever)
	r.reset()
	r.callAll(t, 700, 1, whichever)
	if counts := r.counts(); counts[0] < 90 || counts[0] > 110 {
		t.Errorf("calls went to %v", counts)
	}
}

func TestReportsWithAnswersWeigh(t *testing.T) {
	r := startReporting(t, "per_call")
	r.ready(t)
	r.wantByLoad(t)
	if r.streams.Load() != 0 {
		t.Error("reports are streamed, too")
	}
}

// Reports are listened to over one connection, however many there are, and over
// another one when that is closed.
func TestReportsApartFromAnswersWeigh(t *testing.T) {
	r := startReporting(t, "out_of_band")
	r.ready(t)
	first := r.conn
	r.conn = r.dial(t, "weighted_round_robin")
	r.ready(t)
	waitFor(t, "one stream for each endpoint", func() bool { return r.streams.Load() == 3 })
	r.wantByLoad(t)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	r.passed.Add(int64(time.Hour)) // what was reported is forgotten
	waitFor(t, "one stream for each endpoint again", func() bool { return r.streams.Load() == 3 })
	r.wantByLoad(t)
	if err := r.conn.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "no streams", func() bool { return r.streams.Load() == 0 })
}

// Without reports asked for, calls have nothing to be told to.
func TestNoReportsAreAskedFor(t *testing.T) {
	r := startReporting(t, "off")
	r.ready(t)
	r.callAll(t, 30, 1, whichever)
	r.passed.Add(int64(time.Minute))
	r.callAll(t, 30, 1, whichever)
	for _, e := range r.fleet.View() {
		if e.Weight != 1 {
			t.Errorf("%s weighs %v", e.Address, e.Weight)
		}
	}
}

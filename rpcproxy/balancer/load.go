package balancer

import (
	"time"

	v3 "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/orca"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// reportInterval is how often endpoints are asked to report (gRFC A58's
// default). grpc-go's servers report no more often than every 30s by theirs.
const reportInterval = 10 * time.Second

// joinLoadReports has an endpoint's reports of its load listened to over a
// connection to it that is ready, whenever no other connection does that already.
// Leave the turn when the connection is ready no more.
func joinLoadReports(e *fleet.Endpoint, conn balancer.SubConn) *fleet.Turn {
	return e.ReportTurns().Join(func() func() {
		return orca.RegisterOOBListener(conn, loadListener{e}, orca.OOBListenerOptions{ReportInterval: reportInterval})
	})
}

// loadListener implements orca.OOBListener.
type loadListener struct{ endpoint *fleet.Endpoint }

func (l loadListener) OnLoadReport(r *v3.OrcaLoadReport) { report(l.endpoint, r) }

// reportOf takes in the report in a call's trailer. It is one function for all
// calls over a connection. grpc-go reads the trailer only where there is such a
// function.
func reportOf(e *fleet.Endpoint) func(balancer.DoneInfo) {
	return func(info balancer.DoneInfo) {
		if r, ok := info.ServerLoad.(*v3.OrcaLoadReport); ok {
			report(e, r)
		}
	}
}

func report(e *fleet.Endpoint, r *v3.OrcaLoadReport) {
	l := fleet.LoadReport{Utilization: r.GetApplicationUtilization(), QPS: r.GetRpsFractional(), EPS: r.GetEps()}
	if l.Utilization <= 0 {
		l.Utilization = r.GetCpuUtilization()
	}
	e.Reported(l)
}

package balancer

import (
	"google.golang.org/grpc/balancer"

	"github.com/rpcgate/rpcgate/rpcproxy/fleet"
)

// watches are what is listened to over a connection that is ready, besides the
// answers to calls, or may be once others end.
type watches []*fleet.Turn

func watch(f *fleet.Fleet, e *fleet.Endpoint, conn balancer.SubConn) watches {
	cfg := f.Config()
	var w watches
	if cfg.HealthCheck.Mode != "off" {
		w = append(w, joinHealthWatch(e, cfg.HealthCheck.Service, conn))
	}
	if cfg.Balancer.LoadReports == "out_of_band" {
		w = append(w, joinLoadReports(e, conn))
	}
	return w
}

func (w watches) end() {
	for _, turn := range w {
		turn.Leave()
	}
}

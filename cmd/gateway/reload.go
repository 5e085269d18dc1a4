package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/gateway"
)

// reloads counts what became of them.
type reloads struct {
	total *prometheus.CounterVec // result: ok or error
	last  prometheus.Gauge
}

func newReloads(reg prometheus.Registerer) *reloads {
	r := &reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpcgate_config_reloads_total",
			Help: "Reloads of the configuration that were asked for, by result: ok or error.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpcgate_config_loaded_timestamp_seconds",
			Help: "When the configuration in force was loaded, in Unix time.",
		}),
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("error")
	r.last.SetToCurrentTime()
	reg.MustRegister(r.total, r.last)
	return r
}

// reloader puts the file in force again whenever it is asked to.
type reloader struct {
	out    *outbound
	log    *slog.Logger
	file   string
	counts *reloads
	asked  chan os.Signal
}

// newReloader takes hangups from now on; one that comes before the gateway
// serves waits. Stop it when done.
func newReloader(out *outbound, log *slog.Logger, file string, reg prometheus.Registerer) *reloader {
	r := &reloader{out: out, log: log, file: file, counts: newReloads(reg)}
	r.asked = make(chan os.Signal, 1) // of several while one is served, one is enough
	signal.Notify(r.asked, syscall.SIGHUP)
	return r
}

func (r *reloader) stop() { signal.Stop(r.asked) }

// run reads the file again at each hangup, until ctx ends. A file that cannot be
// taken is logged, and changes nothing.
func (r *reloader) run(ctx context.Context, gw *gateway.Gateway) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		}
		if err := r.reload(ctx, gw); err != nil {
			r.counts.total.WithLabelValues("error").Inc()
			r.log.Error("configuration not reloaded; the one in force stays", slog.Any("error", err))
			continue
		}
		r.counts.total.WithLabelValues("ok").Inc()
		r.counts.last.SetToCurrentTime()
		r.log.Info("configuration reloaded", slog.String("file", r.file))
	}
}

// reload puts the file's backends and routes in force, all or nothing.
func (r *reloader) reload(ctx context.Context, gw *gateway.Gateway) error {
	next, err := config.Load(r.file)
	if err != nil {
		return err
	}
	if fixed := r.out.cfg.FixedChanges(next); len(fixed) > 0 {
		return fmt.Errorf("only backends and routes can be reloaded; a restart is needed for what has changed in: %s", strings.Join(fixed, ", "))
	}
	backends, err := r.out.build(next)
	if err != nil {
		return err
	}
	if err := gw.Reload(ctx, next, backends); err != nil {
		r.out.discard(backends)
		return err
	}
	r.out.replace(next, backends, lingering(next), next.Shutdown.DrainTimeout)
	return nil
}

// lingering is how long a call may take from its route to its backend: its
// credential is looked up, and its body read, before it needs a connection.
func lingering(cfg *config.Config) time.Duration {
	return cfg.HTTP.BodyTimeout + cfg.Auth.Cache.LoadTimeout + time.Second
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/rpcgate/rpcgate/config"
)

// Names of the listeners, in logs and errors.
const (
	listenerHTTP  = "http"
	listenerGRPC  = "grpc"
	listenerAdmin = "admin"
)

// server is one listener and how it is served, drained and closed.
type server struct {
	name, address string
	listener      net.Listener
	serve         func(net.Listener) error
	announce      func() // that it will be drained soon
	drain         func(context.Context) error
	close         func()
}

// newServers makes the servers that the config asks for, the operators' last:
// it is drained last, so that the drain itself can be watched.
func (g *Gateway) newServers(services *AdminServices, metrics prometheus.Gatherer) error {
	if g.cfg.HTTP.Address != config.Off {
		front, err := newHTTPFront(g, g.cfg.HTTP)
		if err != nil {
			return err
		}
		srv, err := newHTTPServer(withCORS(front, g.cfg.HTTP), g.cfg.HTTP, listenerHTTP, g.log)
		if err != nil {
			return err
		}
		g.servers = append(g.servers, httpServer(listenerHTTP, g.cfg.HTTP.Address, srv, front.ws.open))
	}
	if g.cfg.GRPC.Address != config.Off {
		g.health = newHealthServer()
		srv, err := newGRPCServer(g, g.cfg.GRPC, g.health)
		if err != nil {
			return err
		}
		g.servers = append(g.servers, grpcServer(g.cfg.GRPC.Address, srv))
	}
	if g.cfg.Admin.Address != config.Off {
		srv, err := newAdminServer(g, g.cfg.Admin, services, metrics, g.log)
		if err != nil {
			return err
		}
		g.servers = append(g.servers, httpServer(listenerAdmin, g.cfg.Admin.Address, srv, new(upgrades)))
	}
	return nil
}

// lastWords is how long calls that are cut off at the drain limit have to tell
// their callers so.
const lastWords = time.Second

// httpServer makes a server of srv and of the connections that it has given away.
func httpServer(name, address string, srv *http.Server, open *upgrades) *server {
	base, cutOff := context.WithCancelCause(context.Background())
	srv.BaseContext = func(net.Listener) context.Context { return base }
	srv.ConnContext = withConn
	overTLS := srv.TLSConfig != nil // net/http itself sets it, too
	leaving := newFarewells(srv)
	return &server{
		name: name, address: address,
		announce: leaving.begin,
		serve: func(l net.Listener) error {
			if overTLS {
				return srv.ServeTLS(l, "", "")
			}
			return srv.Serve(l)
		},
		drain: func(ctx context.Context) error {
			leaving.end(ctx)
			shutdown := func(ctx context.Context) error {
				if err := srv.Shutdown(ctx); err != nil {
					return err
				}
				return open.wait(ctx)
			}
			err := shutdown(ctx)
			if err == nil {
				leaving.wait()
				return nil
			}
			cutOff(errDraining)
			words, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			_ = shutdown(words) // close ends what is left
			return err
		},
		close: func() {
			cutOff(errDraining)
			_ = srv.Close()
			open.close()
			leaving.wait()
		},
	}
}

func grpcServer(address string, srv *grpc.Server) *server {
	return &server{
		name: listenerGRPC, address: address,
		serve:    srv.Serve,
		announce: func() {}, // GracefulStop does, and waits for the answer
		drain: func(ctx context.Context) error {
			done := make(chan struct{})
			go func() {
				defer close(done)
				srv.GracefulStop()
			}()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				srv.Stop() // GracefulStop returns then
				<-done
				return ctx.Err()
			}
		},
		close: srv.Stop,
	}
}

// listen opens all ports, or none.
func (g *Gateway) listen(ctx context.Context) error {
	var lc net.ListenConfig
	for i, s := range g.servers {
		l, err := lc.Listen(ctx, "tcp", s.address)
		if err != nil {
			for _, opened := range g.servers[:i] {
				_ = opened.listener.Close()
			}
			return fmt.Errorf("%s.address: %w", s.name, err)
		}
		s.listener = l
		if s.name != listenerAdmin {
			s.listener = callerListener{l, g.shedder.turns}
		}
	}
	return nil
}

// serve runs every server in a goroutine that drain ends. The channel has what
// made one of them stop by itself.
func (g *Gateway) serve() <-chan error {
	failed := make(chan error, len(g.servers))
	for _, s := range g.servers {
		g.serving.Go(func() {
			err := s.serve(s.listener)
			if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				failed <- fmt.Errorf("serving %s: %w", s.name, err)
			}
		})
	}
	return failed
}

// drain stops the gateway in the order that loses no call: tell the load
// balancers, wait for them to look away, close the listeners, let calls end.
func (g *Gateway) drain(ctx context.Context) error {
	g.ready.on.Store(false)
	if g.health != nil {
		g.health.Shutdown()
	}
	for _, s := range g.servers {
		s.announce()
	}
	g.log.Info("draining", slog.Duration("limit", g.cfg.Shutdown.DrainTimeout))
	sleep(ctx, g.cfg.Shutdown.Delay)
	if g.health != nil {
		g.health.end()
	}

	ctx, cancel := context.WithTimeout(ctx, g.cfg.Shutdown.DrainTimeout)
	defer cancel()
	var calls sync.WaitGroup
	var admin *server
	for _, s := range g.servers {
		if s.name == listenerAdmin {
			admin = s
			continue
		}
		calls.Go(func() { g.drainServer(ctx, s) })
	}
	calls.Wait()
	var backends sync.WaitGroup
	for name, b := range g.current().backends {
		backends.Go(func() {
			if err := b.Shutdown(ctx); err != nil {
				g.log.Warn("backend's connections cut off", slog.String("backend", name), slog.Any("error", err))
			}
		})
	}
	backends.Wait()
	if admin != nil {
		admin.close()
	}
	g.serving.Wait()
	g.accessLog.Flush(ctx)
	return nil
}

func (g *Gateway) drainServer(ctx context.Context, s *server) {
	if err := s.drain(ctx); err != nil {
		g.log.Warn("drain limit reached, calls cut off", slog.String("listener", s.name), slog.Any("error", err))
		s.close()
	}
}

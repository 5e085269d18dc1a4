package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/discovery"
)

// finders are what finds backends. Each is made when the first backend needs it
// and stays until the end, so that a reload finds its backends at once. Making
// one connects to nothing.
type finders struct {
	log *slog.Logger

	mu         sync.Mutex
	etcd       *clientv3.Client
	watches    resolver.Builder // etcd's
	consul     resolver.Builder
	kubernetes resolver.Builder
	dns        resolver.Builder
	closers    []func() // in the order of their making
}

// of gives what finds one backend, where rpcproxy cannot by itself. Backends that
// look for the same share it.
func (f *finders) of(cfg *config.Config, b config.Backend) ([]resolver.Builder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []resolver.Builder
	add := func(kept *resolver.Builder, build func(*config.Config) (resolver.Builder, error)) error {
		if *kept == nil {
			made, err := build(cfg)
			if err != nil {
				return err
			}
			*kept = made
		}
		found = append(found, *kept)
		return nil
	}
	var err error
	switch {
	case b.Etcd != nil:
		err = add(&f.watches, f.etcdBuilder)
	case b.Consul != nil:
		err = add(&f.consul, f.consulBuilder)
	case b.Kubernetes != nil:
		err = add(&f.kubernetes, f.kubernetesBuilder)
	case b.Target != "":
		err = add(&f.dns, f.dnsBuilder)
	}
	return found, err
}

func (f *finders) etcdBuilder(cfg *config.Config) (resolver.Builder, error) {
	cli, err := f.etcdClientLocked(cfg)
	if err != nil {
		return nil, err
	}
	watches := discovery.NewEtcd(cli, f.log)
	f.closers = append(f.closers, watches.Close)
	return watches.Builder(), nil // shares by itself
}

func (f *finders) consulBuilder(cfg *config.Config) (resolver.Builder, error) {
	consul, err := discovery.NewConsul(cfg.Consul, f.log)
	if err != nil {
		return nil, err
	}
	f.closers = append(f.closers, consul.Close)
	return discovery.Share(consul.Builder()), nil
}

func (f *finders) kubernetesBuilder(cfg *config.Config) (resolver.Builder, error) {
	kubernetes, err := discovery.NewKubernetes(cfg.Kubernetes, f.log)
	if err != nil {
		return nil, err
	}
	f.closers = append(f.closers, kubernetes.Close)
	return discovery.Share(kubernetes.Builder()), nil
}

func (f *finders) dnsBuilder(cfg *config.Config) (resolver.Builder, error) {
	return discovery.Share(discovery.DNSBuilder(cfg.DNS, f.log)), nil
}

// etcdClient is the one of the process.
func (f *finders) etcdClient(cfg *config.Config) (*clientv3.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.etcdClientLocked(cfg)
}

func (f *finders) etcdClientLocked(cfg *config.Config) (*clientv3.Client, error) {
	if f.etcd != nil {
		return f.etcd, nil
	}
	cli, err := discovery.Dial(cfg.Etcd)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	f.etcd = cli
	f.closers = append(f.closers, func() {
		if err := cli.Close(); err != nil && !errors.Is(err, context.Canceled) {
			f.log.Warn("not closed cleanly", slog.String("part", "etcd client"), slog.Any("error", err))
		}
	})
	return cli, nil
}

// close ends all of them; the backends that use them are closed before.
func (f *finders) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.closers) - 1; i >= 0; i-- {
		f.closers[i]()
	}
	f.closers = nil
}

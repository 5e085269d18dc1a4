package discovery

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/resolver"
)

type etcdBuilder struct{ etcd *Etcd }

func (etcdBuilder) Scheme() string { return etcdScheme }

func (b etcdBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	key, err := parseEtcdTarget(target)
	if err != nil {
		return nil, err
	}
	w, err := b.etcd.join(key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &etcdResolver{etcd: b.etcd, watch: w, cc: cc, cancel: cancel, done: make(chan struct{})}
	go r.run(ctx)
	return r, nil
}

func parseEtcdTarget(target resolver.Target) (watchKey, error) {
	key := strings.Trim(target.Endpoint(), "/")
	if key == "" {
		return watchKey{}, fmt.Errorf("etcd target %q names no key", target.URL.String())
	}
	l := layout(target.URL.Query().Get("layout"))
	switch l {
	case "":
		l = layoutAuto
	case layoutAuto, layoutZRPC, layoutEndpoints:
	default:
		return watchKey{}, fmt.Errorf("etcd target %q: unknown layout %q", target.URL.String(), l)
	}
	return watchKey{key, l}, nil
}

// etcdResolver hands what a watch knows to one ClientConn. It has a goroutine
// of its own, so that a ClientConn that is slow to take an update delays no other.
type etcdResolver struct {
	etcd   *Etcd
	watch  *watch
	cc     resolver.ClientConn
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *etcdResolver) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		u := r.watch.told()
		switch {
		case len(u.endpoints) > 0:
			// An error is the balancer's; resolving again would not change it.
			_ = r.cc.UpdateState(stateOf(u.endpoints))
		case u.known:
			_ = r.cc.UpdateState(stateOf(nil)) // the old endpoints are gone …
			fallthrough
		case u.err != nil:
			r.cc.ReportError(u.err) // … and calls are told why
		}
		select {
		case <-ctx.Done():
		case <-u.changed:
		}
	}
}

// ResolveNow is gRPC's hint that an endpoint failed.
func (r *etcdResolver) ResolveNow(resolver.ResolveNowOptions) { r.watch.hint() }

func (r *etcdResolver) Close() {
	r.cancel()
	<-r.done
	r.etcd.leave(r.watch)
}

package discovery

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// deafEtcd grants a lease and fails from then on, with the entry written or not.
type deafEtcd struct {
	clientv3.KV
	clientv3.Lease
	granted clientv3.LeaseID // 0: not even that
	revoked clientv3.LeaseID
}

var errDeaf = errors.New("no answer")

func (d *deafEtcd) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	if d.granted == clientv3.NoLease {
		return nil, errDeaf
	}
	return &clientv3.LeaseGrantResponse{ID: d.granted}, nil
}

func (d *deafEtcd) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errDeaf
}

func (d *deafEtcd) Revoke(ctx context.Context, lease clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	d.revoked = lease
	return nil, ctx.Err()
}

// What a failed attempt may have written does not outlive a server that stops
// before its next one.
func TestRegistrationStopsBetweenAttempts(t *testing.T) {
	t.Parallel()
	for name, granted := range map[string]clientv3.LeaseID{"after the lease": 7, "before the lease": clientv3.NoLease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				etcd := &deafEtcd{granted: granted}
				r, err := NewRegistration(&clientv3.Client{KV: etcd, Lease: etcd},
					RegisterOptions{Key: "shop.rpc", Address: "10.0.0.1:80"}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.Run(ctx) }()
				synctest.Wait() // it backs off
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if etcd.revoked != granted {
					t.Errorf("revoked lease %d, want %d", etcd.revoked, granted)
				}
			})
		})
	}
}

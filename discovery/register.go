package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RegisterOptions say what a server registers as.
type RegisterOptions struct {
	// The etcd key that clients look under; the entry goes to <Key>/<lease id>.
	Key string
	// host:port for clients to dial; see [AdvertiseAddress].
	Address string
	// How long the entry outlives a server that died. Rounded up to seconds; 0: 10s.
	TTL time.Duration
	// Published beside the address, in the layout of etcd's own naming package,
	// which zRPC clients cannot read. Empty: zRPC's layout, the bare address.
	Metadata map[string]string
}

const (
	defaultTTL = 10 * time.Second
	// How long one request of a registration may take, and the whole deregistration.
	registerTimeout = 3 * time.Second

	minRegisterBackoff = 200 * time.Millisecond
	maxRegisterBackoff = 5 * time.Second
)

// Registration keeps one address registered in etcd.
type Registration struct {
	cli   *clientv3.Client
	key   string
	value string
	ttl   time.Duration
	log   *slog.Logger
}

// NewRegistration checks the options; nothing is registered before Run.
func NewRegistration(cli *clientv3.Client, o RegisterOptions, log *slog.Logger) (*Registration, error) {
	key := strings.Trim(o.Key, "/")
	if key == "" {
		return nil, errors.New("registration: no key")
	}
	if err := checkAddress(o.Address); err != nil {
		return nil, fmt.Errorf("registration: %w", err)
	}
	if o.TTL < 0 {
		return nil, fmt.Errorf("registration: TTL %v is negative", o.TTL)
	}
	r := &Registration{cli: cli, key: key, value: o.Address, ttl: o.TTL, log: log.With("etcd_key", key, "address", o.Address)}
	if r.ttl == 0 {
		r.ttl = defaultTTL
	}
	if len(o.Metadata) > 0 {
		value, err := json.Marshal(struct {
			Op       int
			Addr     string
			Metadata map[string]string
		}{opAdd, o.Address, o.Metadata})
		if err != nil {
			return nil, fmt.Errorf("registration: %w", err)
		}
		r.value = string(value)
	}
	return r, nil
}

// Run registers, keeps the registration alive and makes it anew whenever it is
// lost (etcd away for longer than the TTL, restarted empty, the lease revoked,
// the entry deleted), until ctx ends. Then it deregisters and returns nil, or
// why that failed: the entry stays until its TTL is over.
func (r *Registration) Run(ctx context.Context) error {
	retry := backoff{min: minRegisterBackoff, max: maxRegisterBackoff}
	for {
		lease, err := r.register(ctx)
		if err == nil {
			retry.reset()
			r.log.Info("registered in etcd")
			err = r.keep(ctx, lease)
		}
		if ctx.Err() == nil {
			r.log.Warn("not registered in etcd; trying again", "error", err)
			if retry.wait(ctx) {
				continue
			}
		}
		if lease == clientv3.NoLease {
			return nil // nothing was registered
		}
		// Also after a failure: the entry may have been written, or be there still.
		return r.deregister(ctx, lease)
	}
}

// register returns the lease that the entry hangs on, also if writing the entry
// failed: it may have got there all the same, and goes when the lease ends.
func (r *Registration) register(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	seconds := int64((r.ttl + time.Second - 1) / time.Second)
	lease, err := r.cli.Grant(ctx, seconds)
	if err != nil {
		return clientv3.NoLease, fmt.Errorf("asking for a lease: %w", err)
	}
	return lease.ID, r.put(ctx, lease.ID)
}

func (r *Registration) put(ctx context.Context, lease clientv3.LeaseID) error {
	if _, err := r.cli.Put(ctx, r.entry(lease), r.value, clientv3.WithLease(lease)); err != nil {
		return fmt.Errorf("writing %s: %w", r.entry(lease), err)
	}
	return nil
}

// entry is <key>/<lease id>, as zRPC's publisher writes it.
func (r *Registration) entry(lease clientv3.LeaseID) string {
	return r.key + "/" + strconv.FormatInt(int64(lease), 10)
}

// keep returns when the lease is lost, or ctx ends.
func (r *Registration) keep(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A lessor of its own: the client's one stops for good on some errors.
	lessor := clientv3.NewLease(r.cli)
	defer lessor.Close() //nolint:errcheck // it only waits for its goroutines
	alive, err := lessor.KeepAlive(ctx, lease)
	if err != nil {
		return fmt.Errorf("keeping the lease alive: %w", err)
	}
	check := time.NewTicker(r.ttl)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-alive:
			if !ok {
				return errors.New("the lease was lost")
			}
		case <-check.C:
			if err := r.restore(ctx, lease); err != nil {
				// What is wrong shows in the lease, or at the next check.
				r.log.Debug("could not check the registration", "error", err)
			}
		}
	}
}

// restore writes the entry again if somebody deleted it.
func (r *Registration) restore(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	found, err := r.cli.Get(ctx, r.entry(lease), clientv3.WithCountOnly())
	if err != nil || found.Count > 0 {
		return err
	}
	r.log.Warn("the registration was deleted from etcd; writing it again")
	return r.put(ctx, lease)
}

func (r *Registration) deregister(ctx context.Context, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registerTimeout)
	defer cancel()
	if _, err := r.cli.Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("deregistering %s: %w", r.entry(lease), err)
	}
	r.log.Info("deregistered from etcd")
	return nil
}

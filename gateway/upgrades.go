package gateway

import (
	"context"
	"net"
	"sync"
)

// upgrades are the connections that were taken out of net/http's hands, which
// does not wait for them when it stops. The zero value has none.
type upgrades struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	changed chan struct{} // closed when the last one has gone; nil while nobody waits
}

func (u *upgrades) add(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns == nil {
		u.conns = make(map[net.Conn]struct{})
	}
	u.conns[c] = struct{}{}
}

func (u *upgrades) remove(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
	if len(u.conns) == 0 && u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// wait returns once there is none, or with ctx's error.
func (u *upgrades) wait(ctx context.Context) error {
	u.mu.Lock()
	if len(u.conns) == 0 {
		u.mu.Unlock()
		return nil
	}
	if u.changed == nil {
		u.changed = make(chan struct{})
	}
	changed := u.changed
	u.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes all there are. Their calls notice by themselves.
func (u *upgrades) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
}

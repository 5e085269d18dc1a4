package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// Cluster is a cluster of three masters with a replica each. A node that does
// not answer for a second is taken for down.
type Cluster struct {
	// Masters at the start: slots 0 to 5460, to 10922, and to 16383.
	Masters []*Server
	// Replicas are theirs, in the same order.
	Replicas []*Server

	tb testing.TB
}

const (
	slots       = 16384
	masters     = 3
	clusterNode = "cluster-node-timeout"
)

// StartCluster starts a cluster and waits until each node takes part in it.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	start := func() *Server {
		return Start(tb, Options{Args: []string{
			"--cluster-enabled", "yes", "--" + clusterNode, "1000", "--cluster-require-full-coverage", "no",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}})
	}
	for range masters {
		c.Masters, c.Replicas = append(c.Masters, start()), append(c.Replicas, start())
	}
	for i, m := range c.Masters {
		m.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		m.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	first := c.Masters[0]
	for _, n := range append(c.Masters[1:], c.Replicas...) {
		n.Do("CLUSTER", "MEET", "127.0.0.1", first.port())
	}
	c.awaitAll("the nodes to meet", 1)
	for i, r := range c.Replicas {
		r.Do("CLUSTER", "REPLICATE", c.Masters[i].Do("CLUSTER", "MYID"))
	}
	for _, r := range c.Replicas {
		await(tb, "the replica's link", func() error {
			if text := r.Do("INFO", "replication"); !strings.Contains(text, "master_link_status:up") {
				return fmt.Errorf("%s is not a replica yet", r.Addr)
			}
			return nil
		})
	}
	c.awaitAll("the replicas", 2)
	return c
}

// nodes are all of them.
func (c *Cluster) nodes() []*Server { return append(append([]*Server{}, c.Masters...), c.Replicas...) }

// awaitAll waits until each node sees all others, each slot served by so many.
func (c *Cluster) awaitAll(what string, servers int) {
	c.tb.Helper()
	for _, n := range c.nodes() {
		await(c.tb, what, func() error {
			info := n.Do("CLUSTER", "INFO")
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", 2*masters)) {
				return fmt.Errorf("%s sees %s", n.Addr, info)
			}
			if shards := strings.Count(n.Do("CLUSTER", "NODES"), "slave "); shards != masters*(servers-1) {
				return fmt.Errorf("%s sees %d replicas", n.Addr, shards)
			}
			return nil
		})
	}
}

// Addrs are the masters' host:port.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		addrs[i] = m.Addr
	}
	return addrs
}

// Slot is the slot that a key lies in.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, err := c.Masters[0].Client().ClusterKeySlot(c.tb.Context(), key).Result()
	if err != nil {
		c.tb.Fatal(err)
	}
	return int(slot)
}

// Home is the number of the master that has a slot at the start.
func Home(slot int) int {
	for i := range masters {
		if slot < (i+1)*slots/masters {
			return i
		}
	}
	return -1
}

// Move moves a slot from one master to another as redis-cli does: it is
// announced, its keys are moved a few at a time, and then all are told. between
// is called while it is announced at both ends and once after each step, so that
// calls can be made at each stage.
func (c *Cluster) Move(slot int, from, to *Server, between func()) {
	c.tb.Helper()
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	between()
	rdb := from.Client()
	for {
		keys, err := rdb.ClusterGetKeysInSlot(c.tb.Context(), slot, 5).Result()
		if err != nil {
			c.tb.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", "127.0.0.1", to.port(), "", 0, limit.Milliseconds(), "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		from.Do(args...)
		between()
	}
	for _, n := range []*Server{to, from} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	between()
	for _, n := range c.Masters {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	between()
}

// AwaitReplica waits until the replica of a master has as many keys as it.
// Replication goes beside the answers: what was just written would be lost with
// the master.
func (c *Cluster) AwaitReplica(number int) {
	c.tb.Helper()
	await(c.tb, "the replication", func() error {
		if has, want := c.Replicas[number].Size(), c.Masters[number].Size(); has != want {
			return fmt.Errorf("the replica has %d keys of %d", has, want)
		}
		return nil
	})
}

// AwaitFailover waits until the replica of a lost master is master.
func (c *Cluster) AwaitFailover(number int) {
	c.tb.Helper()
	r := c.Replicas[number]
	await(c.tb, "the failover", func() error {
		if text := r.Do("INFO", "replication"); !strings.Contains(text, "role:master") {
			return fmt.Errorf("%s is a replica still", r.Addr)
		}
		return nil
	})
}

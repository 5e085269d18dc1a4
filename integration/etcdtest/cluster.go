package etcdtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rpcgate/rpcgate/integration/process"
	"github.com/rpcgate/rpcgate/integration/toolbuild"
)

// Cluster is several members on one machine. Each is a [Server] that can be
// killed, paused and restarted by itself.
type Cluster struct {
	Members []*Server

	tb testing.TB
}

// StartCluster starts n empty members, and waits until they have a leader.
func StartCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	program := toolbuild.Program(tb, "etcd", ".")
	process.StartOnPorts(tb, 2*n, func(ports []int) (*process.Process, error) {
		var peers []string
		for i := range n {
			peers = append(peers, fmt.Sprintf("member-%d=http://%s", i, process.Loopback(ports[n+i])))
		}
		c.Members = nil
		for i := range n {
			s := &Server{tb: tb, program: program, dataDir: tb.TempDir(), Endpoint: process.Loopback(ports[i])}
			s.health = "http://" + s.Endpoint
			s.args = arguments(fmt.Sprintf("member-%d", i), s.health, "http://"+process.Loopback(ports[n+i]), strings.Join(peers, ","))
			s.process = s.launch() // none gets ready without the others
			c.Members = append(c.Members, s)
		}
		for _, s := range c.Members {
			if err := s.process.AwaitReady(s.healthy); err != nil {
				c.killAll()
				return nil, err
			}
		}
		return c.Members[0].process, nil
	})
	return c
}

func (c *Cluster) killAll() {
	for _, s := range c.Members {
		s.Kill()
	}
}

// Endpoints lists the members' client host:port.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, s := range c.Members {
		all = append(all, s.Endpoint)
	}
	return all
}

// Leader is the member that leads as those that can be asked see it; nil while
// there is none.
func (c *Cluster) Leader() *Server {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), 5*time.Second)
	defer cancel()
	for _, s := range c.Members {
		cli, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()})
		if err != nil {
			c.tb.Fatalf("etcd client: %v", err)
		}
		status, err := cli.Status(ctx, s.Endpoint)
		_ = cli.Close()
		if err == nil && status.Leader == status.Header.MemberId {
			return s
		}
	}
	return nil
}

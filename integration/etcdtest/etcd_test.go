package etcdtest_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rpcgate/rpcgate/integration/etcdtest"
)

func TestServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := etcdtest.Start(t)
	cli := s.Client()
	expect := func(want int64) {
		t.Helper()
		got, err := cli.Get(ctx, "k", clientv3.WithCountOnly())
		if err != nil || got.Count != want {
			t.Fatalf("Get: %v, %v; want %d", got, err, want)
		}
	}
	if _, err := cli.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}

	s.Pause()
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := cli.Get(short, "k"); err == nil {
		t.Fatal("a paused server answers")
	}
	s.Resume()
	expect(1)

	s.Restart()
	expect(1)

	s.RestartEmpty()
	expect(0)
}

func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := etcdtest.StartCluster(t, 3)
	leader := c.Leader()
	if leader == nil {
		t.Fatal("a new cluster has no leader")
	}
	if _, err := leader.Client().Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	leader.Kill()
	for _, s := range c.Members {
		if s == leader {
			continue
		}
		if got, err := s.Client().Get(ctx, "k"); err != nil || got.Count != 1 { // waits for a new leader
			t.Errorf("Get: %v, %v", got, err)
		}
	}
	leader.Restart()
	if got, err := leader.Client().Get(ctx, "k"); err != nil || got.Count != 1 {
		t.Errorf("Get of the old leader: %v, %v", got, err)
	}
}

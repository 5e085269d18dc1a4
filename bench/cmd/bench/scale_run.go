package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/bench/internal/peers"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

const (
	// scaleCallers is how many calls there are at once; they share scaleConns
	// connections to the gateway.
	scaleCallers = 256
	scaleConns   = 8
)

// scaleCaller is a credential.
type scaleCaller struct{ app, token string }

// scaleRow is what one run found.
type scaleRow struct {
	first, again wave
	idle         held // more than before the first call
}

// wave is one call of each credential.
type wave struct {
	took     time.Duration
	p50, p99 time.Duration
	failed   int
	why      error // of one that failed
}

const scaleHeader = `| pool.key, policy | credentials | connections | first calls | /s | p50 | p99 | failed | RSS each | heap each | stack each | goroutines each | later calls p50 | p99 | failed |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
`

// line shows a row. Each is for each credential.
func (r scaleRow) line(run scaleRun) string {
	n := float64(run.credentials)
	kib := func(bytes float64) string { return fmt.Sprintf("%.1f KiB", bytes/n/1024) }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3) }
	return fmt.Sprintf("| %s | %d | %d | %.1f s | %.0f | %s | %s | %d | %s | %s | %s | %.2f | %s | %s | %d |\n",
		run.name, run.credentials, run.conns, r.first.took.Seconds(), n/r.first.took.Seconds(), ms(r.first.p50), ms(r.first.p99), r.first.failed,
		kib(r.idle.resident), kib(r.idle.heap), kib(r.idle.stack), r.idle.goroutines/n,
		ms(r.again.p50), ms(r.again.p99), r.again.failed)
}

// measureScale makes one call with each credential, looks at the gateway, and
// makes another.
func measureScale(ctx context.Context, g gatewayProbe, address string, callers []scaleCaller) (row scaleRow, err error) {
	var clients []shoppb.UserServiceClient
	for range scaleConns {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		clients = append(clients, shoppb.NewUserServiceClient(conn))
	}
	// The gateway's own are there before it is looked at.
	if _, err = call(ctx, clients, callers[:1]); err != nil {
		return row, err
	}
	before, err := g.read(ctx)
	if err != nil {
		return row, err
	}
	if row.first, err = call(ctx, clients, callers); err != nil {
		return row, err
	}
	after, err := g.read(ctx)
	if err != nil {
		return row, err
	}
	row.idle = held{
		resident: after.resident - before.resident, heap: after.heap - before.heap,
		stack: after.stack - before.stack, goroutines: after.goroutines - before.goroutines,
	}
	row.again, err = call(ctx, clients, callers)
	return row, err
}

// call makes one call with each credential, scaleCallers at once.
func call(ctx context.Context, clients []shoppb.UserServiceClient, callers []scaleCaller) (wave, error) {
	took := make([]time.Duration, len(callers))
	var next, failed atomic.Int64
	var why atomic.Pointer[error]
	start := time.Now()
	var wg sync.WaitGroup
	for g := range scaleCallers {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(callers)) {
					return
				}
				c := callers[i]
				began := time.Now()
				_, err := clients[g%len(clients)].GetUser(
					metadata.AppendToOutgoingContext(ctx, "app", c.app, "token", c.token),
					&shoppb.GetUserRequest{Id: peers.UserID}, grpc.WaitForReady(true))
				if took[i] = time.Since(began); err != nil {
					failed.Add(1)
					why.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	w := wave{took: time.Since(start), failed: int(failed.Load())}
	if p := why.Load(); p != nil {
		w.why = *p
	}
	slices.Sort(took)
	w.p50, w.p99 = took[len(took)/2], took[len(took)*99/100]
	if w.failed == len(callers) {
		return w, fmt.Errorf("no call succeeded: %w", w.why)
	}
	return w, nil
}

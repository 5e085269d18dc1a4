package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcgate/rpcgate/integration/ledger/ledgerpb"
)

// ledger is the service.
type ledger struct {
	ledgerpb.UnimplementedLedgerServer

	name     string
	instance int // tells the runs of one endpoint apart
	work     time.Duration
	journal  *os.File
	last     atomic.Int64
}

// execute journals one execution of a call. One write to a file that is open
// for appending is whole, and is there however the process ends.
func (l *ledger) execute(method string, r *ledgerpb.Request) (string, error) {
	execution := fmt.Sprintf("%s/%d/%d", l.name, l.instance, l.last.Add(1))
	if _, err := fmt.Fprintf(l.journal, "%d\t%s\t%s\t%s\n", time.Now().UnixMicro(), execution, method, r.GetTag()); err != nil {
		return "", status.Errorf(codes.Internal, "writing the journal: %v", err)
	}
	return execution, nil
}

func (l *ledger) unary(ctx context.Context, method string, r *ledgerpb.Request) (*ledgerpb.Entry, error) {
	execution, err := l.execute(method, r)
	if err != nil {
		return nil, err
	}
	wait(ctx, l.work)
	return &ledgerpb.Entry{Tag: r.GetTag(), Endpoint: l.name, Execution: execution}, nil
}

// Look may be repeated.
func (l *ledger) Look(ctx context.Context, r *ledgerpb.Request) (*ledgerpb.Entry, error) {
	return l.unary(ctx, "Look", r)
}

// Post may not.
func (l *ledger) Post(ctx context.Context, r *ledgerpb.Request) (*ledgerpb.Entry, error) {
	return l.unary(ctx, "Post", r)
}

// Follow answers the entries one by one.
func (l *ledger) Follow(r *ledgerpb.Request, stream grpc.ServerStreamingServer[ledgerpb.Entry]) error {
	execution, err := l.execute("Follow", r)
	if err != nil {
		return err
	}
	for number := range r.GetCount() {
		wait(stream.Context(), l.work)
		if err := stream.Send(&ledgerpb.Entry{Tag: r.GetTag(), Endpoint: l.name, Execution: execution, Number: number}); err != nil {
			return err
		}
	}
	return nil
}

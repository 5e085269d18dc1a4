package admin

import (
	"context"
	"errors"
	"time"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/usage"
)

// usageService serves rpcgate.admin.v1.UsageService.
type usageService struct {
	adminpb.UnimplementedUsageServiceServer
	*Service
}

func (s usageService) ListUsage(ctx context.Context, r *adminpb.ListUsageRequest) (*adminpb.ListUsageResponse, error) {
	if err := tenant.ValidateApp(r.GetApp()); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	from, err := dayFrom("from", r.GetFrom(), time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		return nil, err
	}
	to, err := dayFrom("to", r.GetTo(), now)
	if err != nil {
		return nil, err
	}
	rows, err := s.Usage(ctx, r.GetApp(), from, to)
	if errors.Is(err, usage.ErrRange) {
		return nil, badField("from", err.Error())
	}
	if err != nil {
		return nil, err
	}
	out := &adminpb.ListUsageResponse{Usage: make([]*adminpb.Usage, len(rows))}
	for i, row := range rows {
		out.Usage[i] = &adminpb.Usage{
			App: r.GetApp(), Day: row.Day.Format(time.DateOnly), Route: row.Route, Calls: row.Calls,
			CallerFailures: row.CallerFailures, GatewayFailures: row.GatewayFailures, BackendFailures: row.BackendFailures,
			BytesIn: row.BytesIn, BytesOut: row.BytesOut,
		}
	}
	return out, nil
}

func dayFrom(field, text string, none time.Time) (time.Time, error) {
	if text == "" {
		return none, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, badField(field, field+" is no day like 2006-01-02")
	}
	return day, nil
}

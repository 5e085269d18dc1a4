package admin

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/config"
)

// limitsFrom reads limits. What their values may be is the store's to say, but
// for what its types have no room for.
func limitsFrom(l *adminpb.Limits) config.Limits {
	return config.Limits{
		Rate: int(l.GetRate()), Per: l.GetPer().AsDuration(), Burst: int(l.GetBurst()), Concurrency: int(l.GetConcurrency()),
		Daily: int(l.GetDaily()), Monthly: int(l.GetMonthly()),
		MaxBody: config.Size(l.GetMaxBody()), Streams: int(l.GetStreams()), StreamLifetime: l.GetStreamLifetime().AsDuration(),
	}
}

// limitsTo writes limits; nil: there are none.
func limitsTo(l config.Limits) *adminpb.Limits {
	if l.IsZero() {
		return nil
	}
	return &adminpb.Limits{
		Rate: small(l.Rate), Per: durationTo(l.Per), Burst: small(l.Burst), Concurrency: small(l.Concurrency),
		Daily: int64(l.Daily), Monthly: int64(l.Monthly),
		MaxBody: int64(l.MaxBody), Streams: small(l.Streams), StreamLifetime: durationTo(l.StreamLifetime),
	}
}

// small is a count that is bounded far below what an int32 holds.
func small(n int) int32 { return int32(min(n, math.MaxInt32)) }

func durationTo(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// setLimit changes one of the limits, by the name of its field, to what it is in
// others, and tells whether there is one of that name.
func setLimit(l *config.Limits, field string, others config.Limits) bool {
	switch field {
	case "rate":
		l.Rate = others.Rate
	case "per":
		l.Per = others.Per
	case "burst":
		l.Burst = others.Burst
	case "concurrency":
		l.Concurrency = others.Concurrency
	case "daily":
		l.Daily = others.Daily
	case "monthly":
		l.Monthly = others.Monthly
	case "max_body":
		l.MaxBody = others.MaxBody
	case "streams":
		l.Streams = others.Streams
	case "stream_lifetime":
		l.StreamLifetime = others.StreamLifetime
	default:
		return false
	}
	return true
}

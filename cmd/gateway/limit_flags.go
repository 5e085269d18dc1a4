package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/config"
)

// limitFlags are the limits of an app or a token.
type limitFlags struct {
	rate           rateFlag
	burst          int32
	concurrency    int32
	daily, monthly int64
	maxBody        sizeFlag
	streams        int32
	lifetime       time.Duration
}

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.rate, "rate", "calls over time, like 100/s, 600/m, 1000/h or 50/10s, over all gateways; 0: as many as come")
	flags.Int32Var(&f.burst, "burst", 0, "how many calls may come at once; 0: as many as the rate has")
	flags.Int32Var(&f.concurrency, "concurrency", 0, "calls in flight, in each gateway")
	flags.Int64Var(&f.daily, "daily", 0, "calls in a day, by UTC")
	flags.Int64Var(&f.monthly, "monthly", 0, "calls in a calendar month, by UTC")
	flags.Var(&f.maxBody, "max-body", "how large a request body, or a message of a stream, may be, like 64KiB")
	flags.Int32Var(&f.streams, "streams", 0, "streams in flight, in each gateway")
	flags.DurationVar(&f.lifetime, "stream-lifetime", 0, "how long a stream may last")
}

// limits gives them, and the paths of those that were given, for a mask.
func (f *limitFlags) limits(cmd *cobra.Command) (l *adminpb.Limits, paths []string, err error) {
	for _, p := range []struct {
		flag  string
		paths []string
	}{
		{"rate", []string{"limits.rate", "limits.per"}},
		{"burst", []string{"limits.burst"}},
		{"concurrency", []string{"limits.concurrency"}},
		{"daily", []string{"limits.daily"}},
		{"monthly", []string{"limits.monthly"}},
		{"max-body", []string{"limits.max_body"}},
		{"streams", []string{"limits.streams"}},
		{"stream-lifetime", []string{"limits.stream_lifetime"}},
	} {
		if cmd.Flags().Changed(p.flag) {
			paths = append(paths, p.paths...)
		}
	}
	for flag, n := range map[string]int64{
		"burst": int64(f.burst), "concurrency": int64(f.concurrency), "daily": f.daily, "monthly": f.monthly,
		"streams": int64(f.streams), "stream-lifetime": int64(f.lifetime),
	} {
		if n < 0 {
			return nil, nil, usagef("--%s must not be negative", flag)
		}
	}
	if paths == nil {
		return nil, nil, nil
	}
	l = &adminpb.Limits{
		Rate: f.rate.calls, Burst: f.burst, Concurrency: f.concurrency, Daily: f.daily, Monthly: f.monthly,
		MaxBody: int64(f.maxBody), Streams: f.streams,
	}
	if f.rate.per != 0 {
		l.Per = durationpb.New(f.rate.per)
	}
	if f.lifetime != 0 {
		l.StreamLifetime = durationpb.New(f.lifetime)
	}
	return l, paths, nil
}

// rateFlag is a number of calls over a time.
type rateFlag struct {
	calls int32
	per   time.Duration
}

// Set reads 100/s, 600/m, 1000/h, 50/10s, 100 (a second) and 0.
func (r *rateFlag) Set(text string) error {
	count, over, has := strings.Cut(text, "/")
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of calls, like 100/s", count)
	}
	per := time.Second
	if has {
		if over != "" && (over[0] < '0' || over[0] > '9') {
			over = "1" + over
		}
		if per, err = time.ParseDuration(over); err != nil || per <= 0 {
			return fmt.Errorf("%q is no time; write s, m, h, or a duration like 10s", over)
		}
	}
	*r = rateFlag{int32(n), per}
	if n == 0 {
		r.per = 0
	}
	return nil
}

func (r *rateFlag) String() string {
	if r.calls == 0 {
		return ""
	}
	return rateText(r.calls, r.per)
}

// Type names the value in help texts.
func (r *rateFlag) Type() string { return "CALLS/TIME" }

func rateText(calls int32, per time.Duration) string {
	switch per {
	case 0, time.Second:
		return fmt.Sprintf("%d/s", calls)
	case time.Minute:
		return fmt.Sprintf("%d/m", calls)
	case time.Hour:
		return fmt.Sprintf("%d/h", calls)
	default:
		return fmt.Sprintf("%d/%s", calls, shortDuration(per))
	}
}

// shortDuration is a duration without units that are 0: 24h and not 24h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// sizeFlag is a number of bytes, as the configuration has them.
type sizeFlag config.Size

// Set reads 64KiB, 1MiB and so on.
func (s *sizeFlag) Set(text string) error {
	size, err := config.ParseSize(text)
	if err != nil {
		return err
	}
	if size < 0 || size > math.MaxInt32 {
		return fmt.Errorf("%q is out of range", text)
	}
	*s = sizeFlag(size)
	return nil
}

func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return config.Size(*s).String()
}

// Type names the value in help texts.
func (s *sizeFlag) Type() string { return "SIZE" }

// limitsText shows limits in a line; "-": there are none.
func limitsText(l *adminpb.Limits) string {
	if l == nil {
		return "-"
	}
	var parts []string
	add := func(format string, n int64) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	if l.GetRate() != 0 {
		parts = append(parts, "rate "+rateText(l.GetRate(), l.GetPer().AsDuration()))
	}
	add("burst %d", int64(l.GetBurst()))
	add("concurrency %d", int64(l.GetConcurrency()))
	add("daily %d", l.GetDaily())
	add("monthly %d", l.GetMonthly())
	if l.GetMaxBody() != 0 {
		parts = append(parts, "max body "+config.Size(l.GetMaxBody()).String())
	}
	add("streams %d", int64(l.GetStreams()))
	if l.GetStreamLifetime() != nil {
		parts = append(parts, "stream lifetime "+shortDuration(l.GetStreamLifetime().AsDuration()))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

package usage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// Row is what an app used of one route on one day.
type Row struct {
	Day   time.Time `json:"day"`   // its beginning, in UTC
	Route string    `json:"route"` // "GET /v1/users/{id}", "/shop.UserService/GetUser" or [OtherRoute]
	Used
}

// Used is a number of calls and what they took. Failures are among the calls;
// bytes are those of the messages in protobuf, whichever form they have for the
// caller.
type Used struct {
	Calls           int64 `json:"calls"`
	CallerFailures  int64 `json:"caller_failures"`
	GatewayFailures int64 `json:"gateway_failures"`
	BackendFailures int64 `json:"backend_failures"`
	BytesIn         int64 `json:"bytes_in"`
	BytesOut        int64 `json:"bytes_out"`
}

// MaxDays is how many days one [Read] gives.
const MaxDays = 1000

// ErrRange says that there is no day from one to the other, or more of them than
// [MaxDays].
var ErrRange = fmt.Errorf("the first day must not be after the last, and %d days are the most", MaxDays)

// Read gives what an app used from one day to another, both included, in UTC: by
// day, and within a day by route. Days on which nothing was counted, or that are
// not kept any more, have no rows. An app that nothing is known of has none
// either. Errors: [ErrRange]; what Redis says.
func Read(ctx context.Context, rdb redis.UniversalClient, keys tenant.Keys, app string, from, to time.Time) ([]Row, error) {
	from, to = dayOf(from), dayOf(to)
	days := int(to.Sub(from)/day) + 1
	if days < 1 || days > MaxDays {
		return nil, fmt.Errorf("%w: from %s to %s", ErrRange, from.Format(time.DateOnly), to.Format(time.DateOnly))
	}
	var rows []Row
	const page = 32 // days that are asked for at once
	for first := 0; first < days; first += page {
		hashes := make([]*redis.MapStringStringCmd, 0, page)
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := first; i < min(first+page, days); i++ {
				hashes = append(hashes, p.HGetAll(ctx, keys.Usage(app, dayText(from.AddDate(0, 0, i)))))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the usage of app %s: %w", app, err)
		}
		for i, hash := range hashes {
			rows = append(rows, rowsOf(from.AddDate(0, 0, first+i), hash.Val())...)
		}
	}
	return rows, nil
}

// rowsOf makes rows of one day's hash. Fields that are no counter's, as a later
// version may have them, are left out.
func rowsOf(when time.Time, hash map[string]string) []Row {
	used := map[string]*Used{}
	for field, text := range hash {
		name, route, ok := strings.Cut(field, " ")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		u := used[route]
		if u == nil {
			u = new(Used)
		}
		if c := u.counter(name); c != nil {
			*c = n
			used[route] = u
		}
	}
	rows := make([]Row, 0, len(used))
	for route, u := range used {
		rows = append(rows, Row{Day: when, Route: route, Used: *u})
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Route, b.Route) })
	return rows
}

const day = 24 * time.Hour

// dayOf is the beginning of an instant's day, in UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(day) }

// dayText is how a day stands in a key.
func dayText(t time.Time) string { return t.Format("20060102") }

// The names of the counters in a day's hash, of which each has a field for each
// route: "calls GET /v1/users/{id}".
const (
	fieldCalls   = "calls"
	fieldCaller  = "caller"
	fieldGateway = "gateway"
	fieldBackend = "backend"
	fieldIn      = "in"
	fieldOut     = "out"
)

// counter is the one of a name; nil: there is none.
func (u *Used) counter(name string) *int64 {
	switch name {
	case fieldCalls:
		return &u.Calls
	case fieldCaller:
		return &u.CallerFailures
	case fieldGateway:
		return &u.GatewayFailures
	case fieldBackend:
		return &u.BackendFailures
	case fieldIn:
		return &u.BytesIn
	case fieldOut:
		return &u.BytesOut
	}
	return nil
}

// counters gives all that are not 0.
func (u *Used) counters(yield func(name string, n int64) bool) {
	for _, name := range [...]string{fieldCalls, fieldCaller, fieldGateway, fieldBackend, fieldIn, fieldOut} {
		if n := *u.counter(name); n != 0 && !yield(name, n) {
			return
		}
	}
}

// add adds what another has.
func (u *Used) add(o *Used) {
	u.Calls += o.Calls
	u.CallerFailures += o.CallerFailures
	u.GatewayFailures += o.GatewayFailures
	u.BackendFailures += o.BackendFailures
	u.BytesIn += o.BytesIn
	u.BytesOut += o.BytesOut
}

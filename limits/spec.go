package limits

import (
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// Whose says what a limit is of.
type Whose uint8

// What limits are of.
const (
	OfApp   Whose = iota // all calls of an app
	OfToken              // those with one of its tokens
	OfRoute              // those of an app to one method
)

// Period is what calls are counted over.
type Period uint8

// The periods.
const (
	Rate    Period = iota // a bucket that is filled all the time
	Daily                 // a day, by UTC
	Monthly               // a calendar month, by UTC
)

// Key names a limit. Gateways that share a store share what is counted under it.
type Key struct {
	App    string // empty: all callers together that need no credential
	Whose  Whose
	Name   string // the token's id or the method
	Period Period
}

// policies are the names of limits as callers are told of them.
var policies = [...][3]string{ //nolint:gochecknoglobals // a table
	OfApp:   {"app", "app-daily", "app-monthly"},
	OfToken: {"token", "token-daily", "token-monthly"},
	OfRoute: {"route", "route-daily", "route-monthly"},
}

// Policy is the limit's name as callers are told of it, such as "app" or
// "token-daily".
func (k Key) Policy() string { return policies[k.Whose][k.Period] }

// Kind is the limit's name for metrics: app, token and route for rates, daily and
// monthly for quotas.
func (k Key) Kind() string {
	switch k.Period {
	case Daily:
		return "daily"
	case Monthly:
		return "monthly"
	default:
		return k.Policy()
	}
}

// Spec is how much a limit allows.
type Spec struct {
	// Calls in each Per, or in the whole period.
	Calls int
	// How many calls may come at once; of a quota it is Calls.
	Burst int
	// Zero: a quota.
	Per time.Duration
}

// Each calls f with what l bounds by rates and quotas.
func Each(l config.Limits, f func(Period, Spec)) {
	if l.Rate > 0 {
		s := Spec{Calls: l.Rate, Burst: l.Burst, Per: l.Per}
		if s.Burst == 0 {
			s.Burst = s.Calls
		}
		if s.Per == 0 {
			s.Per = time.Second
		}
		f(Rate, s)
	}
	if l.Daily > 0 {
		f(Daily, Spec{Calls: l.Daily, Burst: l.Daily})
	}
	if l.Monthly > 0 {
		f(Monthly, Spec{Calls: l.Monthly, Burst: l.Monthly})
	}
}

// Counted tells whether a rate or a quota is among what l bounds.
func Counted(l *config.Limits) bool { return l.Rate > 0 || l.Daily > 0 || l.Monthly > 0 }

// Or fills in, of what is counted, what l leaves open by what all have. A rate
// goes with its burst and what it is counted over.
func Or(l, all config.Limits) config.Limits {
	if l.Rate == 0 {
		l.Rate, l.Per, l.Burst = all.Rate, all.Per, all.Burst
	}
	if l.Daily == 0 {
		l.Daily = all.Daily
	}
	if l.Monthly == 0 {
		l.Monthly = all.Monthly
	}
	return l
}

package config

import (
	"slices"
	"time"
)

const (
	shortestUsage = 100 * time.Millisecond
	shortestKeep  = 24 * time.Hour
	mostNamedApps = 1000
)

func (v *validator) usage(u *Usage) {
	if u.Interval > 0 && u.Interval < shortestUsage {
		v.fault("usage.interval", "is too short: the least is %v, or 0 for counting nothing", shortestUsage)
	}
	if u.Interval > 0 && u.Keep < shortestKeep {
		v.fault("usage.keep", "is less than a day, %v: a day's usage would go before the day is over", shortestKeep)
	}
}

func (v *validator) metrics(m *Metrics) {
	if len(m.Apps) > mostNamedApps {
		v.fault("metrics.apps", "has more than %d apps: each has series of its own", mostNamedApps)
	}
	for i, app := range m.Apps {
		key := indexPath("metrics.apps", i)
		switch {
		case app == "other":
			v.fault(key, `"other" stands for all that have no series of their own`)
		case !validApp(app):
			v.fault(key, "%s is no app id: up to 64 of A-Z a-z 0-9 _ -", v.show(key, app))
		case slices.Contains(m.Apps[:i], app):
			v.fault(key, "%s stands in the list already", v.show(key, app))
		}
	}
}

// validApp is the grammar of app ids, which package auth refuses others by.
func validApp(app string) bool {
	for i := range len(app) {
		switch c := app[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return app != "" && len(app) <= 64
}

package tenant

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The fields of an app's hash are those of [App], and
//
//	op        what the last change drew for itself, see script.go; an import, with what it did
//	epoch     how often all tokens were revoked: those of an earlier one are dead
//	revoked   when that was last
//	ended_by  what that drew for itself
//	deleted   when the app was: then its record is gone but for the version and
//	          the above, until the last of its tokens has gone
//
// An app whose hash has no field created has no record.

// appFields are the fields that operators set, as a script takes them.
func appFields(a App) ([]any, error) {
	limits, err := formatLimits(a.Limits)
	if err != nil {
		return nil, err
	}
	return []any{
		"name", a.Name, "status", string(a.Status), "scopes", strings.Join(a.Scopes, listSeparator), "limits", limits,
		"priority", a.Priority, "weight", formatInt(int64(a.Weight)), "contact", a.Contact,
	}, nil
}

// changedFields are those of c, as a script takes them.
func (c AppChange) changedFields() ([]any, error) {
	var fields []any
	add := func(name, value string) { fields = append(fields, name, value) }
	if c.Name != nil {
		add("name", *c.Name)
	}
	if c.Status != nil {
		add("status", string(*c.Status))
	}
	if c.Scopes != nil {
		add("scopes", strings.Join(*c.Scopes, listSeparator))
	}
	if c.Limits != nil {
		limits, err := formatLimits(*c.Limits)
		if err != nil {
			return nil, err
		}
		add("limits", limits)
	}
	if c.Priority != nil {
		add("priority", *c.Priority)
	}
	if c.Weight != nil {
		add("weight", formatInt(int64(*c.Weight)))
	}
	if c.Contact != nil {
		add("contact", *c.Contact)
	}
	return fields, nil
}

// life is what an app's hash says of its tokens.
type life struct {
	epoch   int64
	revoked time.Time
}

// appFieldNames are what [readApp] reads.
func appFieldNames() []string {
	return []string{
		"name", "status", "scopes", "limits", "priority", "weight", "contact", "created", "updated", "version", "epoch", "revoked", "deleted",
	}
}

// readApp reads an app's hash; known tells whether it has a record. Without one
// the app is active, and may do everything.
func readApp(id string, fields map[string]string) (a App, l life, known bool, err error) {
	a = App{
		ID: id, Status: Active, Name: fields["name"], Scopes: parseList(fields["scopes"]),
		Priority: fields["priority"], Contact: fields["contact"],
	}
	var errs [8]error
	switch status := Status(fields["status"]); status {
	case "", Active:
	case Suspended:
		a.Status = Suspended
	default: // what a newer version may mean by it, nobody may call with here
		errs[7] = errors.New("its status is none")
	}
	a.Limits, errs[0] = parseLimits(fields["limits"])
	a.Created, errs[1] = instant(fields["created"])
	a.Updated, errs[2] = instant(fields["updated"])
	a.Version, errs[3] = parseInt(fields["version"])
	weight, weightErr := parseInt(fields["weight"])
	a.Weight, errs[4] = int(weight), weightErr
	l.epoch, errs[5] = parseInt(fields["epoch"])
	l.revoked, errs[6] = instant(fields["revoked"])
	if err := errors.Join(errs[:]...); err != nil {
		return App{}, life{}, false, fmt.Errorf("the record of app %s is damaged: %w", id, err)
	}
	_, known = fields["created"]
	if !known {
		a = App{ID: id, Status: Active}
	}
	return a, l, known, nil
}

func formatInt(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func parseInt(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New("not a whole number")
	}
	return n, nil
}

// instant reads Unix milliseconds; absent and "0" are the zero time.
func instant(s string) (time.Time, error) {
	ms, err := parseInt(s)
	if err != nil || ms == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(ms).UTC(), nil
}

// formatInstant writes Unix milliseconds; the zero time is "".
func formatInstant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatInt(t.UnixMilli())
}

// milli cuts t to what Redis keeps of it.
func milli(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

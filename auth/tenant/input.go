package tenant

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/auth/scope"
	"github.com/rpcgate/rpcgate/config"
)

// Bounds of a credential, in bytes.
const (
	MaxApp   = 64
	MaxToken = 256
)

// Bounds of a record. Those of scopes are in [scope].
const (
	MaxText     = 256 // bytes of a name, a note or a contact
	MaxNetworks = 64  // of a token
	MaxWeight   = 1000
)

// ErrInput means that what was given cannot be: a bad app id, a note that is too
// long. Nothing was changed.
var ErrInput = errors.New("invalid")

// InputError says what of the input is wrong. Its text may be shown.
type InputError struct {
	Field string // as JSON has it: "scopes"
	Fault string // a sentence: "the note is longer than 256 bytes"
}

// Error is the fault.
func (e *InputError) Error() string { return e.Fault }

// Is makes it an [ErrInput].
func (e *InputError) Is(target error) bool { return target == ErrInput }

// ValidateApp checks that app can be an app id: 1 to 64 of A-Z, a-z, 0-9, "_"
// and "-". Errors: [ErrInput].
func ValidateApp(app string) error {
	if fault := AppFault(app); fault != "" {
		return &InputError{"app", fault}
	}
	return nil
}

// AppFault is what keeps app from being an app id, or "".
func AppFault(app string) string {
	switch {
	case app == "":
		return "the app id is empty"
	case len(app) > MaxApp:
		return "the app id is longer than 64 characters"
	}
	for i := range len(app) {
		switch c := app[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return "the app id has a character other than A-Z a-z 0-9 _ -"
		}
	}
	return ""
}

// TokenFault is what keeps token from being the token of a credential, of
// whatever layout, or "".
func TokenFault(token string) string {
	switch {
	case token == "":
		return "the token is empty"
	case len(token) > MaxToken:
		return "the token is longer than 256 characters"
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' {
			return "the token has a character that is not printable ASCII, or a space"
		}
	}
	return ""
}

// check checks what operators set of an app.
func (a App) check() error {
	return firstFault(ValidateApp(a.ID), AppChange{
		Name: &a.Name, Contact: &a.Contact, Priority: &a.Priority, Status: &a.Status, Scopes: &a.Scopes, Limits: &a.Limits, Weight: &a.Weight,
	}.check())
}

func (c AppChange) check() error {
	if c.Status != nil && *c.Status != Active && *c.Status != Suspended {
		return &InputError{"status", "the status is neither active nor suspended"}
	}
	if c.Priority != nil && !slices.Contains([]string{"", "low", "normal", "high", "critical"}, *c.Priority) {
		return &InputError{"priority", "the priority is none of low, normal, high, critical"}
	}
	if c.Weight != nil && (*c.Weight < 0 || *c.Weight > MaxWeight) {
		return &InputError{"weight", fmt.Sprintf("the weight is not between 0 and %d", MaxWeight)}
	}
	if c.IfVersion < 0 {
		return &InputError{"version", "the version is below zero"}
	}
	return firstFault(checkText("name", c.Name), checkText("contact", c.Contact), checkScopes(c.Scopes), checkLimits(c.Limits))
}

func (o IssueOptions) check() error {
	if err := ValidateApp(o.App); err != nil {
		return err
	}
	switch {
	case !o.Expires.IsZero() && o.TTL != 0:
		return &InputError{"expires", "a token ends at a time, or after one, not both"}
	case !o.Expires.IsZero() && !o.Expires.After(time.Now()):
		return &InputError{"expires", "the time at which the token is to end is past"}
	case o.TTL < 0:
		return &InputError{"ttl", fmt.Sprintf("the time to live is %s, below zero", o.TTL)}
	case o.TTL > 0 && o.TTL < time.Millisecond:
		return &InputError{"ttl", fmt.Sprintf("the time to live is %s, below a millisecond", o.TTL)}
	}
	return TokenChange{Note: &o.Note, Scopes: &o.Scopes, Networks: &o.Networks, Limits: &o.Limits}.check(time.Time{})
}

// check checks c. An expiry must be after now: what is past is for Revoke.
func (c TokenChange) check(now time.Time) error {
	if c.Expires != nil && !c.Expires.IsZero() {
		if !c.Expires.After(now) {
			return &InputError{"expires", "the expiry is in the past: revoke the token instead"}
		}
		if c.Expires.After(latest()) {
			return &InputError{"expires", "the expiry is after the year 9999"}
		}
	}
	if c.IfVersion < 0 {
		return &InputError{"version", "the version is below zero"}
	}
	return firstFault(checkText("note", c.Note), checkScopes(c.Scopes), checkNetworks(c.Networks), checkLimits(c.Limits))
}

// latest is the last instant that JSON's times can say.
func latest() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }

func firstFault(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkText checks a text for people.
func checkText(field string, text *string) error {
	switch {
	case text == nil:
	case len(*text) > MaxText:
		return &InputError{field, fmt.Sprintf("the %s is longer than %d bytes", field, MaxText)}
	case strings.ContainsFunc(*text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }):
		return &InputError{field, fmt.Sprintf("the %s has a control character", field)}
	case strings.ToValidUTF8(*text, "") != *text:
		return &InputError{field, fmt.Sprintf("the %s is not UTF-8", field)}
	}
	return nil
}

func checkScopes(scopes *[]string) error {
	if scopes == nil {
		return nil
	}
	if _, err := scope.Compile(*scopes); err != nil {
		return &InputError{"scopes", "scopes: " + err.Error()}
	}
	for _, s := range *scopes {
		if strings.Contains(s, listSeparator) {
			return &InputError{"scopes", fmt.Sprintf("scope %q: a scope has no %q", s, listSeparator)}
		}
	}
	return nil
}

func checkNetworks(networks *[]netip.Prefix) error {
	if networks == nil {
		return nil
	}
	if len(*networks) > MaxNetworks {
		return &InputError{"networks", fmt.Sprintf("%d networks: there may be %d", len(*networks), MaxNetworks)}
	}
	for _, n := range *networks {
		switch {
		case !n.IsValid():
			return &InputError{"networks", "a network is not valid"}
		case n != n.Masked():
			return &InputError{"networks", fmt.Sprintf("the network %s has bits beside its mask: is it %s?", n, n.Masked())}
		}
	}
	return nil
}

// checkLimits has the bounds that the fields of [config.Limits] say.
func checkLimits(l *config.Limits) error {
	if l == nil {
		return nil
	}
	const most = 1_000_000_000
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"rate", l.Rate, most}, {"burst", l.Burst, most}, {"concurrency", l.Concurrency, most}, {"streams", l.Streams, most},
		{"daily", l.Daily, 1 << 53}, {"monthly", l.Monthly, 1 << 53}, {"max_body", int(l.MaxBody), 1 << 30},
	} {
		if f.value < 0 || f.value > f.most {
			return &InputError{"limits." + f.name, fmt.Sprintf("the limit %s is not between 0 and %d", f.name, f.most)}
		}
	}
	switch {
	case l.Per != 0 && (l.Per < time.Second || l.Per > 24*time.Hour):
		return &InputError{"limits.per", "the limit per is not between 1s and 24h"}
	case l.StreamLifetime < 0:
		return &InputError{"limits.stream_lifetime", "the limit stream_lifetime is below zero"}
	}
	return nil
}

// checkWithin refuses scopes of a token of which the app's allow nothing. Whether
// a method's scope and a route's have a call in common is not known here: it may
// be.
func checkWithin(scopes, apps []string) error {
	if len(apps) == 0 {
		return nil
	}
	for _, s := range scopes {
		if !slices.ContainsFunc(apps, func(a string) bool { return mayMeet(s, a) }) {
			return &InputError{"scopes", fmt.Sprintf("the scope %q is outside of all that the app may call: %s", s, firstOf(apps))}
		}
	}
	return nil
}

// firstOf lists scopes for people, who need not see 128 of them.
func firstOf(scopes []string) string {
	const most = 5
	if len(scopes) > most {
		return strings.Join(scopes[:most], ", ") + ", …"
	}
	return strings.Join(scopes, ", ")
}

// mayMeet tells whether two scopes may have a call in common.
func mayMeet(a, b string) bool {
	route := func(s string) bool { return strings.Contains(s, " ") }
	if a == "*" || b == "*" || route(a) != route(b) || strings.Contains(a+b, "{") {
		return true
	}
	common, err := scope.Intersect([]string{a}, []string{b})
	return err != nil || len(common) > 0
}

package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
)

func newApp() *cobra.Command {
	return group(&cobra.Command{
		Use:   "app",
		Short: "Create, list, change, suspend and delete apps",
		Long: `Create, list, change, suspend and delete the records of apps, which say who may
call, what for, and how much.

They are in Redis, named by --redis or by the configuration (-c); or they are
asked for at a gateway's admin port (--admin), on behalf of an operator.`,
		Example: `  gateway app create --app acme --name "ACME Ltd" --scope 'shop.OrderService/*' --rate 100/s -c gateway.yaml
  gateway app list --redis 127.0.0.1:6379`,
	}, newAppCreate(), newAppList(), newAppShow(), newAppSet(),
		newAppState("suspend", "Refuse all calls of an app until it is resumed", "Suspended"),
		newAppState("resume", "Let a suspended app's calls through again", "Resumed"),
		newAppDelete())
}

// appFlags are what an app's record has.
type appFlags struct {
	app, name, contact, priority string
	scopes                       []string
	weight                       int32
	limits                       limitFlags
}

func (f *appFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.app, "app", "", "the `APP`'s id (needed)")
	flags.StringVar(&f.name, "name", "", "a `NAME` for people")
	flags.StringVar(&f.contact, "contact", "", "whom to ask about it")
	flags.StringArrayVar(&f.scopes, "scope", nil, "a `PATTERN` of what it may call, like 'shop.OrderService/*' or 'GET /v1/**'; may be given again; '': everything")
	flags.StringVar(&f.priority, "priority", "", "how its calls' `PRIORITY` under overload differs from their routes': low, normal (not at all), high or critical; '': normal")
	flags.Int32Var(&f.weight, "weight", 0, "its share of a full gateway, relative to other apps'; 0: 1")
	f.limits.add(cmd)
}

// record gives the record, and the paths of what was given.
func (f *appFlags) record(cmd *cobra.Command) (*adminpb.App, []string, error) {
	if err := needApp(f.app); err != nil {
		return nil, nil, err
	}
	if f.weight < 0 {
		return nil, nil, usagef("--weight must not be negative")
	}
	limits, limitPaths, err := f.limits.limits(cmd)
	if err != nil {
		return nil, nil, err
	}
	paths := append(given(cmd, "name", "contact", "priority", "weight", "scope"), limitPaths...)
	return &adminpb.App{
		Id: f.app, Name: f.name, Contact: f.contact, Priority: f.priority, Weight: f.weight, Scopes: listed(f.scopes), Limits: limits,
	}, paths, nil
}

// given names the fields whose flags were given. A flag that may be given again
// has the name of one of its field's values.
func given(cmd *cobra.Command, flags ...string) []string {
	var paths []string
	for _, flag := range flags {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		switch flag {
		case "scope", "network":
			flag += "s"
		}
		paths = append(paths, flag)
	}
	return paths
}

// listed is a list without empty values: one alone stands for none.
func listed(values []string) []string {
	var list []string
	for _, v := range values {
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

// limitsJSON are limits as scripts get them.
type limitsJSON struct {
	Rate           int32  `json:"rate,omitempty"`
	Per            string `json:"per,omitempty"` // a duration
	Burst          int32  `json:"burst,omitempty"`
	Concurrency    int32  `json:"concurrency,omitempty"`
	Daily          int64  `json:"daily,omitempty"`
	Monthly        int64  `json:"monthly,omitempty"`
	MaxBody        int64  `json:"max_body,omitempty"` // bytes
	Streams        int32  `json:"streams,omitempty"`
	StreamLifetime string `json:"stream_lifetime,omitempty"` // a duration
}

func newLimitsJSON(l *adminpb.Limits) *limitsJSON {
	if l == nil {
		return nil
	}
	return &limitsJSON{
		Rate: l.GetRate(), Per: durationText(l.GetPer()), Burst: l.GetBurst(), Concurrency: l.GetConcurrency(), Daily: l.GetDaily(),
		Monthly: l.GetMonthly(), MaxBody: l.GetMaxBody(), Streams: l.GetStreams(), StreamLifetime: durationText(l.GetStreamLifetime()),
	}
}

func durationText(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return shortDuration(d.AsDuration())
}

// appJSON is an app as scripts get it.
type appJSON struct {
	ID       string      `json:"id"`
	Name     string      `json:"name,omitempty"`
	Status   string      `json:"status"`
	Scopes   []string    `json:"scopes,omitempty"`
	Limits   *limitsJSON `json:"limits,omitempty"`
	Priority string      `json:"priority,omitempty"`
	Weight   int32       `json:"weight,omitempty"`
	Contact  string      `json:"contact,omitempty"`
	Created  *time.Time  `json:"created,omitempty"`
	Updated  *time.Time  `json:"updated,omitempty"`
	Version  int64       `json:"version,omitempty"`
}

func newAppJSON(a *adminpb.App) appJSON {
	return appJSON{
		ID: a.GetId(), Name: a.GetName(), Status: statusText(a), Scopes: a.GetScopes(), Limits: newLimitsJSON(a.GetLimits()),
		Priority: a.GetPriority(), Weight: a.GetWeight(), Contact: a.GetContact(),
		Created: timeOf(a.GetCreated()), Updated: timeOf(a.GetUpdated()), Version: a.GetVersion(),
	}
}

func statusText(a *adminpb.App) string { return strings.ToLower(a.GetStatus().String()) }

// timeOf is a time; nil: there is none.
func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.AsTime())
}

// when is a time for people.
func when(t *timestamppb.Timestamp, none string) string {
	if t == nil {
		return none
	}
	return instant(t.AsTime(), none)
}

// printApp prints one app: a line for each field, or JSON.
func printApp(cmd *cobra.Command, format output, a *adminpb.App) error {
	if format == outputJSON {
		return printJSON(cmd.OutOrStdout(), newAppJSON(a))
	}
	return printFields(cmd.OutOrStdout(), [][2]string{
		{"app", a.GetId()},
		{"name", a.GetName()},
		{"status", statusText(a)},
		{"scopes", scopesText(a.GetScopes())},
		{"limits", limitsText(a.GetLimits())},
		{"priority", a.GetPriority()},
		{"weight", weightText(a)},
		{"contact", a.GetContact()},
		{"created", when(a.GetCreated(), "")},
		{"updated", when(a.GetUpdated(), "")},
		{"version", strconv.FormatInt(a.GetVersion(), 10)},
	})
}

func weightText(a *adminpb.App) string { return strconv.Itoa(int(max(a.GetWeight(), 1))) }

func scopesText(scopes []string) string {
	if len(scopes) == 0 {
		return "everything"
	}
	return strings.Join(scopes, ", ")
}

// appAction runs one call about an app and prints what it answers.
type appAction func(ctx context.Context, a api) (*adminpb.App, error)

func runAppAction(cmd *cobra.Command, where *apiFlags, format output, do appAction) error {
	return where.with(cmd.Context(), func(ctx context.Context, a api) error {
		ctx, cancel := limited(ctx)
		defer cancel()
		app, err := do(ctx, a)
		if err != nil {
			return err
		}
		return printApp(cmd, format, app)
	})
}

package discovery

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	const grace = 30 * time.Second
	type step struct {
		after  time.Duration // since the step before
		put    string        // "key=value …"
		remove string        // "key …"
		list   string        // "key=value …" replaces everything; "-" with nothing
		want   string        // addresses
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"sorted, each address once", []step{
			{list: "k/2=b:1 k/1=a:1 k/3=b:1", want: "a:1 b:1"},
			{remove: "k/2", want: "a:1 b:1"},
			{remove: "k/3", want: "a:1"},
		}},
		{"one of several goes at once", []step{
			{list: "k/1=a:1 k/2=b:1", want: "a:1 b:1"},
			{remove: "k/1", want: "b:1"},
		}},
		{"never any", []step{{list: "-", want: ""}}},
		{"the last one stays for the grace period", []step{
			{list: "k/1=a:1", want: "a:1"},
			{remove: "k/1", want: "a:1"},
			{after: grace - 1, want: "a:1"},
			{after: 1, want: ""},
			{after: time.Hour, want: ""},
		}},
		{"deleted and written again", []step{
			{list: "k/1=a:1", want: "a:1"},
			{remove: "k/1", want: "a:1"},
			{after: time.Second, put: "k/2=a:1", want: "a:1"},
			{after: grace, want: "a:1"},
		}},
		{"a lost store fills again one by one", []step{
			{list: "k/1=a:1 k/2=b:1 k/3=c:1", want: "a:1 b:1 c:1"},
			{list: "-", want: "a:1 b:1 c:1"},
			{after: 5 * time.Second, put: "k/4=b:1", want: "a:1 b:1 c:1"},
			{after: 5 * time.Second, put: "k/5=d:1", want: "a:1 b:1 c:1 d:1"},
			{after: grace, want: "b:1 d:1"},
		}},
		{"emptied again while filling", []step{
			{list: "k/1=a:1 k/2=b:1", want: "a:1 b:1"},
			{list: "-", want: "a:1 b:1"},
			{after: 20 * time.Second, put: "k/3=a:1", want: "a:1 b:1"},
			{remove: "k/3", want: "a:1 b:1"},
			{after: 10 * time.Second, want: "a:1"}, // b was held since the first time
			{after: 20 * time.Second, want: ""},
		}},
		{"changed in place", []step{
			{list: "k/1=a:1", want: "a:1"},
			{put: "k/1=b:1", want: "b:1"},
		}},
		{"malformed values are none", []step{
			{list: "k/1=a:1 k/2=junk k/3=:1", want: "a:1"},
			{put: "k/2=b:1", want: "a:1 b:1"},
			{put: "k/2=junk", want: "a:1"},
			{put: "k/1=junk", want: "a:1"}, // the last good one is held
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMembers(layoutAuto, grace, slog.New(slog.DiscardHandler))
			now := time.Unix(0, 0)
			for i, s := range tc.steps {
				now = now.Add(s.after)
				for _, r := range registrations(s.put) {
					m.put(r)
				}
				for key := range strings.FieldsSeq(s.remove) {
					m.remove(key)
				}
				if s.list != "" {
					m.replace(registrations(strings.Trim(s.list, "-")))
				}
				if got := addresses(m.settle(now)); got != s.want {
					t.Errorf("step %d: %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

func registrations(text string) []kv {
	var all []kv
	for i, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		all = append(all, kv{key: key, value: value, revision: int64(i)})
	}
	return all
}

func addresses(endpoints []endpoint) string {
	var all []string
	for _, e := range endpoints {
		all = append(all, e.address)
	}
	return strings.Join(all, " ")
}

func TestMembersReplaceReportsChange(t *testing.T) {
	t.Parallel()
	m := newMembers(layoutAuto, time.Second, slog.New(slog.DiscardHandler))
	for _, tc := range []struct {
		list string
		want bool
	}{
		{"", false},
		{"k/1=a:1 k/2=junk", true},
		{"k/1=a:1 k/2=junk", false},
		{"k/1=b:1 k/2=junk", true},
		{"k/1=b:1", true},
		{"k/3=b:1", true},
	} {
		if got := m.replace(registrations(tc.list)); got != tc.want {
			t.Errorf("replace(%q) = %v", tc.list, got)
		}
	}
}

func TestMembersNewestTellsTheMetadata(t *testing.T) {
	t.Parallel()
	m := newMembers(layoutAuto, time.Second, slog.New(slog.DiscardHandler))
	m.put(kv{"k/1", `{"Addr":"a:1","Metadata":"new"}`, 9})
	m.put(kv{"k/2", `{"Addr":"a:1","Metadata":"old"}`, 3})
	if got := m.settle(time.Now()); len(got) != 1 || got[0].metadata != `"new"` {
		t.Errorf("got %v", got)
	}
}

func TestMembersWarnsOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := newMembers(layoutAuto, time.Second, slog.New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		m.replace(registrations("k/1=junk"))
		m.put(kv{"k/1", "junk", 5})
	}
	if n := strings.Count(out.String(), "malformed"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, out.String())
	}
}

func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	m := newMembers(layoutAuto, time.Second, slog.New(slog.DiscardHandler))
	for i := range maxMembers + 100 {
		m.put(kv{fmt.Sprintf("k/%d", i), "a:1", int64(i)})
	}
	if len(m.live) != maxMembers {
		t.Errorf("%d registrations are kept", len(m.live))
	}
}

package tenant

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/redistest"
)

// fillScript puts in tokens, one for each of the apps in ARGV, with the ids that
// [fill] has: what comes after the prefix, ARGV[1], counts from ARGV[2] on.
const fillScript = `
local prefix, first = ARGV[1], tonumber(ARGV[2])
local seen = {}
for i = 3, #ARGV do
  local app, n = ARGV[i], first + i - 3
  local id = string.gsub(string.format('%016d', n), '%d', function(d) return string.char(97 + d) end)
  local of = prefix .. ':{' .. app .. '}:'
  redis.call('HSET', of .. 'token:' .. id, 'hash', string.format('%064d', n), 'created', 1764500000000 + n, 'expires', 0, 'epoch', 0, 'version', 1)
  redis.call('ZADD', of .. 'tokens', '+inf', id)
  redis.call('ZADD', of .. 'ids', 0, id)
  if not seen[app] then
    redis.call('ZADD', prefix .. ':app-ids', 0, app)
    seen[app] = true
  end
end`

// fill puts n tokens in, each of the app that of names: what is tested is how
// they are read. Redis does it by itself, as so many commands would take a client
// under the race detector a while. It gives them by app and id.
func fill(t testing.TB, s *Store, n int, of func(i int) string) map[string]bool {
	t.Helper()
	all := make(map[string]bool, n)
	script := redis.NewScript(fillScript)
	const piece = 5000
	for start := 0; start < n; start += piece {
		args := []any{s.keys.prefix, start}
		for i := start; i < min(start+piece, n); i++ {
			app := of(i)
			args = append(args, app)
			all[app+"/"+strings.Map(func(d rune) rune { return d - '0' + 'a' }, fmt.Sprintf("%016d", i))] = true
		}
		if err := script.Run(t.Context(), s.rdb, nil, args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	return all
}

// A hundred thousand tokens of one app, or those of many apps, are read in pages
// while others come and go: each that is there throughout comes exactly once,
// and no command takes Redis longer than a page may.
func TestPagesOfManyTokens(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Args: []string{"--slowlog-log-slower-than", "20000", "--slowlog-max-len", "1000"}})
	for name, tc := range map[string]struct {
		n  int
		of func(int) string
	}{
		"one app":      {100_000, func(int) string { return "acme" }},
		"many apps":    {10_000, func(i int) string { return "app" + strconv.Itoa(i) }},
		"uneven ones":  {10_000, func(i int) string { return "app" + strconv.Itoa(i*i%1009%(1+i%97)) }},
		"an older one": {10_000, func(int) string { return "older" }},
	} {
		t.Run(name, func(t *testing.T) {
			n, of := tc.n, tc.of
			rdb := connect(t, server.Addr)
			largest := new(largestAnswer)
			rdb.AddHook(largest)
			s := NewStore(rdb, config.Auth{KeyPrefix: strings.ReplaceAll(name, " ", "-")})
			ctx := t.Context()
			there := fill(t, s, n, of)
			app := ""
			switch name {
			case "one app":
				app = "acme"
			case "an older one":
				if err := rdb.Del(ctx, s.keys.IDs("older"), s.keys.AppIDs()).Err(); err != nil {
					t.Fatal(err)
				}
				if err := rdb.SAdd(ctx, s.keys.Apps(), "older").Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := rdb.Do(ctx, "config", "resetstat").Err(); err != nil {
				t.Fatal(err)
			}
			if err := rdb.Do(ctx, "slowlog", "reset").Err(); err != nil {
				t.Fatal(err)
			}

			got := map[string]int{}
			churn := 0
			for cursor := ""; ; {
				page, next, err := s.Tokens(ctx, app, cursor, maxPage)
				if err != nil {
					t.Fatal(err)
				}
				for _, token := range page {
					got[token.App+"/"+token.ID]++
				}
				if cursor = next; cursor == "" {
					break
				}
				// Meanwhile one comes, its score changes, and it goes.
				churn++
				issued, err := s.Issue(ctx, IssueOptions{App: of(churn), TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Revoke(ctx, issued.App, issued.ID); err != nil {
					t.Fatal(err)
				}
			}
			for id := range there {
				if got[id] != 1 {
					t.Fatalf("token %s comes %d times", id, got[id])
				}
			}
			slowest(t, rdb)
			if largest.n > 2*maxPage {
				t.Errorf("an answer to %s has %d values", largest.command, largest.n)
			}
		})
	}
}

// largestAnswer is how many values the largest answer had.
type largestAnswer struct {
	repeat
	n       int
	command string
}

func (l *largestAnswer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		l.note(cmd)
		return err
	}
}

func (l *largestAnswer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			l.note(cmd)
		}
		return err
	}
}

func (l *largestAnswer) note(cmd redis.Cmder) {
	n := 0
	switch cmd := cmd.(type) {
	case *redis.StringSliceCmd:
		n = len(cmd.Val())
	case *redis.SliceCmd:
		n = len(cmd.Val())
	case *redis.MapStringStringCmd:
		n = 2 * len(cmd.Val())
	case *redis.ScanCmd:
		page, _ := cmd.Val()
		n = len(page)
	}
	if n > l.n {
		l.n, l.command = n, cmd.Name()
	}
}

// slowest fails the test for commands that take long, and those that look at
// all there is.
func slowest(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	stats := rdb.Info(t.Context(), "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+),usec=(\d+),usec_per_call=([0-9.]+)`).FindAllStringSubmatch(stats, -1) {
		if slices.Contains([]string{"keys", "smembers", "hkeys", "hvals", "sort"}, m[1]) {
			t.Errorf("%s was called %s times", m[1], m[2])
		}
		// The machine may be busy: what is rare says little.
		calls, _ := strconv.Atoi(m[2])
		if mean, _ := strconv.ParseFloat(m[4], 64); mean > 5000 && calls >= 50 {
			t.Errorf("%s takes %s µs in the mean", m[1], m[4])
		}
	}
	for _, entry := range rdb.SlowLogGet(t.Context(), 10).Val() {
		t.Logf("slow: %s of %d arguments took %s", entry.Args[0], len(entry.Args), entry.Duration)
		if entry.Duration > time.Second {
			t.Errorf("%s blocked Redis for %s", entry.Args[0], entry.Duration)
		}
	}
}

// Apps come exactly once, too, in order, while others come and go.
func TestPagesOfApps(t *testing.T) {
	s := NewStore(startRedis(t), config.Auth{})
	ctx := t.Context()
	want := make([]string, 0, 500)
	for i := range 500 {
		want = append(want, fmt.Sprintf("app%03d", i))
	}
	atOnce(4, func(k int) {
		for i := k; i < len(want); i += 4 {
			if _, err := s.CreateApp(ctx, App{ID: want[i]}); err != nil {
				t.Error(err)
			}
		}
	})
	var got []string
	for cursor := ""; ; {
		page, next, err := s.Apps(ctx, cursor, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			if a.Name == "" {
				got = append(got, a.ID)
			}
		}
		if cursor = next; cursor == "" {
			break
		}
		passing := App{ID: fmt.Sprintf("app%03d-passing", len(got)-100), Name: "passing"}
		if AppFault(passing.ID) == "" {
			must(s.CreateApp(ctx, passing))(t)
			if len(got)%2 == 0 {
				if err := s.DeleteApp(ctx, passing.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d apps are listed, not %d, or out of order", len(got), len(want))
	}
}

// What an older version wrote is listed with what this one writes, and adopted
// once; an older one that goes on issuing is taken in again.
func TestAdoption(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	want := map[string]bool{}
	for i := range 5 {
		app := "app" + strconv.Itoa(i)
		for range 1 + 30*i {
			want[app+"/"+issueAsBefore(t, s, app, time.Now().Add(time.Hour)).ID] = true
		}
	}
	want["app1/"+must(s.Issue(ctx, IssueOptions{App: "app1"}))(t).ID] = true
	check := func() {
		t.Helper()
		all := readAll(t, s, "", 11)
		for id := range want {
			if _, ok := all[id]; !ok {
				t.Errorf("token %s is not listed", id)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%d tokens are listed, want %d", len(all), len(want))
		}
		if left := s.rdb.Exists(ctx, s.keys.Apps()).Val(); left != 0 {
			t.Error("apps were left as they were")
		}
	}
	want["app4/"+issueAsBefore(t, s, "app4", time.Time{}).ID] = true
	if n := len(readAll(t, s, "app4", 1000)); n != 122 {
		t.Errorf("%d tokens of one app are listed", n)
	}
	check()
	want["app0/"+issueAsBefore(t, s, "app0", time.Time{}).ID] = true
	check()
	for cursor, all := "", 0; ; {
		page, next, err := s.Apps(context.WithoutCancel(ctx), cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		if all, cursor = all+len(page), next; cursor == "" {
			if all != 5 {
				t.Errorf("%d apps are listed", all)
			}
			return
		}
	}
}

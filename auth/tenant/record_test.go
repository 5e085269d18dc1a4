package tenant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/config"
)

// exported is all of a store as lines.
func exported(t testing.TB, s *Store) string {
	t.Helper()
	var b strings.Builder
	encode := json.NewEncoder(&b)
	if err := s.Export(t.Context(), func(r Record) error { return encode.Encode(r) }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// someRecords fills a store with one of each kind.
func someRecords(t *testing.T, s *Store) []Issued {
	t.Helper()
	ctx := t.Context()
	must(s.CreateApp(ctx, App{
		ID: "acme", Name: "Acme", Scopes: []string{"shop.*/*"}, Priority: "low", Weight: 4, Contact: "ops",
		Limits: config.Limits{Rate: 7, Per: time.Minute, MaxBody: 1 << 20, StreamLifetime: time.Hour},
	}))(t)
	must(s.ChangeApp(ctx, "acme", AppChange{Status: ptr(Suspended)}))(t)
	full := must(s.Issue(ctx, fullOptions()))(t)
	plain := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t)
	rotated := must(s.Rotate(ctx, "acme", full.ID, time.Minute))(t)
	gone := must(s.Issue(ctx, IssueOptions{App: "beta"}))(t)
	if err := s.Revoke(ctx, "beta", ""); err != nil {
		t.Fatal(err)
	}
	_ = issueAsBefore(t, s, "older", time.Time{})
	return []Issued{full, plain, rotated, gone}
}

// What is exported and imported elsewhere is the same there, secrets are in
// neither, and importing it again changes nothing.
func TestExportAndImport(t *testing.T) {
	from, _ := newStore(t)
	issued := someRecords(t, from)
	text := exported(t, from)
	for _, i := range issued {
		secret := i.Secret[secretStart : secretStart+secretLen]
		if strings.Contains(text, secret) || !strings.Contains(text, i.ID) {
			t.Errorf("the export has a secret, or lacks the token %s", i.ID)
		}
	}
	if n := strings.Count(text, "\n"); n != 7 {
		t.Fatalf("the export has %d lines, want 2 apps and 5 tokens:\n%s", n, text)
	}

	to, told := newStore(t)
	ctx := t.Context()
	sum, err := to.ImportLines(ctx, strings.NewReader(text), ImportOptions{DryRun: true})
	if want := (ImportSummary{Created: 7}); err != nil || sum != want || to.rdb.DBSize(ctx).Val() != 0 {
		t.Errorf("tried: %+v, %v; %d keys", sum, err, to.rdb.DBSize(ctx).Val())
	}
	sum, err = to.ImportLines(ctx, strings.NewReader("\n"+text+"\n\n"), ImportOptions{})
	if want := (ImportSummary{Created: 7}); err != nil || sum != want {
		t.Errorf("imported: %+v, %v", sum, err)
	}
	if again := exported(t, to); again != text {
		t.Errorf("imported was\n%s\nand exported is\n%s", text, again)
	}
	for _, i := range issued {
		stored := must(Load(ctx, to.rdb, to.keys, i.App, i.ID))(t)
		parsed := must(ParseToken(i.Secret))(t)
		was := must(Load(ctx, from.rdb, from.keys, i.App, i.ID))(t)
		if stored.Hash != parsed.Hash() || !reflect.DeepEqual(stored, was) {
			t.Errorf("there it is %+v, here %+v", was, stored)
		}
		theirs, ours := from.rdb.PTTL(ctx, from.keys.Token(i.App, i.ID)).Val(), to.rdb.PTTL(ctx, to.keys.Token(i.App, i.ID)).Val()
		if (theirs - ours).Abs() > time.Minute {
			t.Errorf("there it vanishes after %s, here after %s", theirs, ours)
		}
	}
	told.all()
	sum, err = to.ImportLines(ctx, strings.NewReader(text), ImportOptions{})
	if want := (ImportSummary{Kept: 7}); err != nil || sum != want || len(told.all()) != 0 {
		t.Errorf("imported again: %+v, %v", sum, err)
	}
}

func TestImportOverWhatIsThere(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	issued := someRecords(t, s)
	text := exported(t, s)
	must(s.ChangeApp(ctx, "acme", AppChange{Name: ptr("another")}))(t)
	if err := s.Revoke(ctx, "acme", issued[1].ID); err != nil {
		t.Fatal(err)
	}
	must(s.ChangeToken(ctx, "acme", issued[2].ID, TokenChange{Note: ptr("another")}))(t)
	now := exported(t, s)
	told.all()

	for _, dry := range []bool{true, false} {
		_, err := s.ImportLines(ctx, strings.NewReader(text), ImportOptions{DryRun: dry})
		if !errors.Is(err, ErrExists) || !strings.HasPrefix(err.Error(), "line 1: ") || !strings.Contains(err.Error(), "acme") {
			t.Errorf("fail: %v", err)
		}
		sum, err := s.ImportLines(ctx, strings.NewReader(text), ImportOptions{Existing: ExistingSkip, DryRun: dry})
		if want := (ImportSummary{Kept: 7}); err != nil || sum != want {
			t.Errorf("skip: %+v, %v", sum, err)
		}
	}
	sum, err := s.ImportLines(ctx, strings.NewReader(text), ImportOptions{Existing: ExistingReplace, DryRun: true})
	want := ImportSummary{Replaced: 2, Kept: 5}
	if err != nil || sum != want {
		t.Errorf("tried to replace: %+v, %v", sum, err)
	}
	if again := exported(t, s); again != now || len(told.all()) != 0 {
		t.Error("something was changed")
	}

	sum, err = s.ImportLines(ctx, strings.NewReader(text), ImportOptions{Existing: ExistingReplace})
	if err != nil || sum != want {
		t.Errorf("replaced: %+v, %v", sum, err)
	}
	a := must(s.App(ctx, "acme"))(t)
	if a.Name != "Acme" || a.Version <= 3 {
		t.Errorf("the app is %+v, of a version that was there already", a)
	}
	if token := must(s.Token(ctx, "acme", issued[1].ID))(t); token.Revoked.IsZero() {
		t.Errorf("a record from before its revocation made the token %+v", token)
	}
	if token := must(s.Token(ctx, "acme", issued[2].ID))(t); token.Note == "another" || token.Version <= 2 {
		t.Errorf("the token is %+v", token)
	}
	if got, want := told.all(), []string{"revoked acme *", "changed acme " + issued[2].ID}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}

	// What has vanished stays so.
	r := Record{Token: &TokenRecord{Token: issued[0].Token, Hash: strings.Repeat("0", 64)}}
	r.Token.Expires = time.Now().Add(-25 * time.Hour)
	if got, err := s.Import(ctx, r, ImportOptions{Existing: ExistingReplace}); err != nil || got != Kept {
		t.Errorf("imported what has vanished: %s, %v", got, err)
	}
	// Another secret under the id of one that is remembered.
	r.Token.Token = issued[2].Token
	if got, err := s.Import(ctx, r, ImportOptions{Existing: ExistingReplace}); err != nil || got != Replaced {
		t.Errorf("imported: %s, %v", got, err)
	}
	if got, want := told.all(), []string{"replaced acme " + issued[2].ID}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// What was rotated, or revoked with all of its app's, has ended too; of what has
// gone altogether nothing is known.
func TestImportOverWhatHasEnded(t *testing.T) {
	s, told := newStore(t)
	ctx := t.Context()
	rotated, ended := must(s.Issue(ctx, IssueOptions{App: "acme"}))(t), must(s.Issue(ctx, IssueOptions{App: "beta"}))(t)
	before := exported(t, s)
	must(s.Rotate(ctx, "acme", rotated.ID, time.Hour))(t)
	if err := s.Revoke(ctx, "beta", ""); err != nil {
		t.Fatal(err)
	}
	must(s.rdb.HDel(ctx, s.keys.Token("beta", ended.ID), "revoked").Result())(t) // as before it was marked
	told.all()
	sum, err := s.ImportLines(ctx, strings.NewReader(before), ImportOptions{Existing: ExistingReplace})
	if err != nil || sum.Created+sum.Replaced != 0 {
		t.Errorf("imported %+v, %v", sum, err)
	}
	if token := must(s.Token(ctx, "acme", rotated.ID))(t); token.Expires.IsZero() || token.ReplacedBy == "" {
		t.Errorf("the rotated token is %+v", token)
	}
	if token := must(s.Token(ctx, "beta", ended.ID))(t); token.Revoked.IsZero() {
		t.Errorf("the revoked token is %+v", token)
	}
	if got := told.all(); len(got) != 0 {
		t.Errorf("told %q", got)
	}
	if _, err := s.ImportLines(ctx, strings.NewReader(before), ImportOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("without leave to replace: %v", err)
	}
}

// Times that no rotation could do with become ones that it can.
func TestRotationOfImportedTimes(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	for name, of := range map[string]Token{
		"ends first": {ID: strings.Repeat("a", idLen), Created: latest(), Expires: time.Now().Add(time.Hour)},
		"long life":  {ID: strings.Repeat("b", idLen), Created: time.UnixMilli(1), Expires: latest()},
	} {
		of.App = "acme"
		must(s.Import(ctx, Record{Token: &TokenRecord{Token: of, Hash: strings.Repeat("0", 64)}}, ImportOptions{}))(t)
		next, err := s.Rotate(ctx, "acme", of.ID, time.Hour)
		if err != nil || next.Expires.IsZero() || next.Expires.After(latest()) {
			t.Errorf("%s: rotated to %+v, %v", name, next, err)
		}
	}
	exported(t, s) // does not fail
}

func TestImportRefuses(t *testing.T) {
	s, _ := newStore(t)
	someRecords(t, s)
	lines := strings.Split(strings.TrimSpace(exported(t, s)), "\n")
	app, token := lines[0], lines[1]
	if !strings.Contains(token, `"token"`) {
		t.Fatal(token)
	}
	to, _ := newStore(t)
	edit := func(line, old, by string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("%s has no %s", line, old)
		}
		return strings.Replace(line, old, by, 1)
	}
	for name, tc := range map[string]struct{ line, want string }{
		"no JSON":          {"token", "not JSON"},
		"half of it":       {app[:len(app)-1], "not JSON"},
		"a list":           {"[]", "cannot be a array"},
		"nothing":          {"{}", "version 0"},
		"neither":          {`{"v":1}`, "either app or token"},
		"both":             {edit(app, `{"v":1,`, `{"v":1,`+token[len(`{"v":1,`):len(token)-1]+","), "either app or token"},
		"a later version":  {edit(app, `"v":1`, `"v":2`), "version 2"},
		"an unknown field": {edit(app, `"id"`, `"surprise":1,"id"`), "surprise"},
		"a bad id":         {edit(app, `"id":"acme"`, `"id":"a.b"`), "app id"},
		"a status":         {edit(app, `"suspended"`, `"asleep"`), "status"},
		"a scope":          {edit(app, `shop.*/*`, `shop.*`), "scope"},
		"no version":       {edit(app, `"version":2`, `"version":0`), "version"},
		"a hash":           {edit(token, `"hash":"`, `"hash":"0`), "hash"},
		"a token's id":     {edit(token, `"id":"`, `"id":"1`), "id of a token"},
		"a time":           {edit(token, `"created":"2`, `"created":"1`), "out of all bounds"},
		"a long line":      {edit(app, `"name":"`, `"name":"`+strings.Repeat("x", MaxRecord)), "longer"},
		"a high version":   {edit(app, `"version":2`, `"version":9223372036854775807`), "version"},
		"a name twice":     {edit(token, `"app":"acme"`, `"app":"acme","note":"a","app":"beta"`), "\"app\" twice"},
		"in another case":  {edit(app, `"status":"suspended"`, `"status":"suspended","Status":"active"`), "twice"},
		"with another s":   {edit(app, `"status":"suspended"`, `"status":"suspended","ſtatus":"active"`), "twice"},
		"two records":      {edit(app, `{"v":1,`, `{"v":1,"app":{},`), "twice"},
		"a long name":      {edit(app, `"id"`, `"`+strings.Repeat("x", 10_000)+`":1,"id"`), "unknown field"},
		"a long number":    {edit(app, `"version":2`, `"version":`+strings.Repeat("1", 10_000)), "version"},
		"no number":        {edit(app, `"version":2`, `"version":NaN`), "not JSON"},
		"many scopes":      {edit(app, `["shop.*/*"]`, `["a.B/C"`+strings.Repeat(`,"a.B/C"`, 999)+`]`), "there may be 128"},
		"deep":             {edit(app, `"id"`, `"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`,"id"`), "record"},
		"a line's end":     {edit(app, `"name":"`, `"name":"\u0085\u001b[2J`), "control character"},
		"a far end":        {edit(token, `"hash":`, `"last_used":"9999-12-31T23:59:59.999Z","hash":`), "time"},
		"a plain secret":   {edit(token, `"hash":"`, `"secret":"rpg_x","hash":"`), "unknown field"},
	} {
		sum, err := to.ImportLines(t.Context(), strings.NewReader("\n"+tc.line+"\n"+app), ImportOptions{})
		if !errors.Is(err, ErrInput) || !strings.HasPrefix(fmt.Sprint(err), "line 2: ") || !strings.Contains(fmt.Sprint(err), tc.want) ||
			strings.Contains(fmt.Sprint(err), "rpg_x") || len(fmt.Sprint(err)) > 400 || sum != (ImportSummary{}) {
			t.Errorf("%s: %+v, %v; want %q", name, sum, err, tc.want)
		}
	}
	if n := to.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("what was refused left %d keys", n)
	}
}

// A record that is read is written as what reads the same.
func FuzzRecord(f *testing.F) {
	f.Add(`{"v":1,"app":{"id":"acme","status":"active","scopes":["a.B/*"],"limits":{"rate":1,"per":60000000000,"max_body":"1MiB"},"created":"2026-11-30T17:00:00Z","version":1}}`)
	f.Add(`{"v":1,"token":{"app":"acme","id":"aaaaaaaaaaaaaaaa","created":"2026-11-30T17:00:00Z","networks":["10.0.0.0/8","2001:db8::/32"],"hash":"` + strings.Repeat("0", 64) + `"}}`)
	f.Add(`{"v":2}`)
	f.Add(`{"v":1,"app":null,"token":{}} `)
	f.Fuzz(func(t *testing.T, text string) {
		var r Record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return
		}
		if err := r.check(); err != nil {
			t.Fatalf("what cannot be was read: %v", err)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var second Record
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatalf("%s does not read: %v", again, err)
		}
		if third, err := json.Marshal(second); err != nil || !bytes.Equal(again, third) {
			t.Errorf("%s is written as %s", again, third)
		}
		if r.Token == nil {
			return
		}
		// What Redis keeps of it reads the same as well.
		fields := map[string]string{"hash": r.Token.Hash, "scopes": strings.Join(r.Token.Scopes, listSeparator), "networks": formatNetworks(r.Token.Networks)}
		if fields["limits"], err = formatLimits(r.Token.Limits); err != nil {
			t.Fatal(err)
		}
		kept, _, err := readToken(r.Token.App, r.Token.ID, fields, life{})
		if err != nil || !slices.Equal(kept.Scopes, r.Token.Scopes) || !slices.Equal(kept.Networks, r.Token.Networks) || kept.Limits != r.Token.Limits {
			t.Errorf("%+v is kept as %+v, %v", r.Token, kept, err)
		}
	})
}

// A large store is exported with the memory of a page.
func TestExportStreams(t *testing.T) {
	const n = 100_000
	s := NewStore(startRedis(t), config.Auth{})
	fill(t, s, n, func(i int) string { return fmt.Sprintf("app%d", i%3) })
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, count := heap(), uint64(0), 0
	encode := json.NewEncoder(io.Discard)
	if err := s.Export(t.Context(), func(r Record) error {
		if count++; count%10_000 == 0 {
			most = max(most, heap())
		}
		return encode.Encode(r)
	}); err != nil {
		t.Fatal(err)
	}
	if count != n {
		t.Errorf("%d records of %d were exported", count, n)
	}
	if most > before+16<<20 {
		t.Errorf("the export held %d KiB", (most-before)>>10)
	}
}

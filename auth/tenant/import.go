package tenant

import (
	"context"
	"fmt"
	"time"
)

// What a record is compared by, and put in by: fields and values. The answer is
// created, replaced, same, or another, which was there and stays, as it does
// where kept says so.
const importing = `
local dry, existing, version, op = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local function import(key, from, kept, store)
  local last = redis.call('HMGET', key, 'created', 'op', 'version')
  for _, done in ipairs({'created', 'replaced'}) do
    if last[2] == op .. ' ' .. done then return done end
  end
  if kept then return 'another' end
  local was = last[1]
  local same = was
  for i = from, #ARGV, 2 do
    same = same and (redis.call('HGET', key, ARGV[i]) or '') == ARGV[i+1]
  end
  if same then return 'same' end
  if was and existing ~= 'replace' then return 'another' end
  local done = was and 'replaced' or 'created'
  if dry == '1' then return done end
  set(key, from)
  local newest = tonumber(last[3] or '0')
  if was and newest >= tonumber(version) then version = integer(newest + 1) end
  if version ~= '0' then redis.call('HSET', key, 'version', version) end
  redis.call('HSET', key, 'op', op .. ' ' .. done)
  store()
  return done
end
`

const importAppScript = importing + `
-- dry, existing, version, op, updated, fields and values
return {import(app, 9, false, function()
  redis.call('HDEL', app, 'deleted')
  redis.call('HSET', app, 'updated', ARGV[8])
  tell()
end)}`

const importTokenScript = importing + `
-- dry, existing, version, op, id, end, last use, most, message for what stays valid,
-- hash, revoked, replaced_by and other fields and values
local key = KEYS[4]
local id, finish, used, hash, revoked, replaced = ARGV[8], ARGV[9], ARGV[10], ARGV[14], ARGV[16], ARGV[18]
local was = redis.call('HMGET', key, 'created', 'hash', 'replaced_by')
if finish ~= '+inf' and tonumber(finish) <= tonumber(now) then return {'same'} end
if not was[1] and redis.call('ZCARD', ids) >= tonumber(ARGV[11]) then return {'many'} end
if was[2] == hash and revoked == '' then message = ARGV[12] end
local ended = was[1] and (revoked == '' and dead(key) or replaced == '' and was[3])
return {import(key, 13, ended, function()
  redis.call('HDEL', app, 'deleted')
  redis.call('HSET', key, 'epoch', integer(epoch()))
  if used ~= '' then redis.call('HSET', key, 'last_used', used) end
  keep(key, id, finish)
  prune()
  tell()
end)}`

// Import puts a record in, as it is, and tells the gateways. A token that has
// vanished by now is [Kept]. What has ended stays so: a token that is there, and
// was revoked or rotated, is never replaced by a record from before that, but
// another that stays. One that is not there any more lives if the record says
// so. Errors: [ErrExists], [ErrTooMany], [ErrInput], [ErrLayout].
func (s *Store) Import(ctx context.Context, r Record, o ImportOptions) (ImportResult, error) {
	if err := firstFault(r.check(), s.own()); err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	var result ImportResult
	var err error
	if r.App != nil {
		result, err = s.importApp(ctx, *r.App, o)
		err = wrapped(err, "import app "+r.App.ID)
	} else {
		result, err = s.importToken(ctx, *r.Token, o)
		err = wrapped(err, "import "+tokenName(r.Token.App, r.Token.ID))
	}
	return result, err
}

func wrapped(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *Store) importApp(ctx context.Context, a App, o ImportOptions) (ImportResult, error) {
	fields, err := appFields(a)
	if err != nil {
		return "", err
	}
	m := Message{Kind: KindChanged, App: a.ID}
	if a.Status == Suspended {
		m.Kind = KindRevoked
	}
	args := append(o.arguments(a.Version), formatInstant(a.Updated))
	args = append(append(args, "created", formatInstant(a.Created)), fields...)
	return s.importRecord(ctx, a.ID, o, func() (answer, error) { return s.run(ctx, importAppScript, a.ID, nil, m, args...) })
}

func (s *Store) importToken(ctx context.Context, r TokenRecord, o ImportOptions) (ImportResult, error) {
	end := "+inf"
	if vanishes, ok := r.vanishes(); ok {
		end = formatInstant(vanishes)
	}
	fields, err := terms(r.Scopes, r.Networks, r.Limits, r.Note)
	if err != nil {
		return "", err
	}
	expires := formatInstant(r.Expires)
	if expires == "" {
		expires = "0"
	}
	args := append(o.arguments(r.Version), r.ID, end, formatInstant(r.LastUsed), MaxTokens, Message{KindChanged, r.App, r.ID}.String(),
		"hash", r.Hash, "revoked", formatInstant(r.Revoked), "replaced_by", r.ReplacedBy,
		"created", formatInstant(r.Created), "expires", expires)
	args = append(args, fields...)
	// Unless the script finds that the secret is the same, and valid still.
	m := Message{KindReplaced, r.App, r.ID}
	if r.ID == ImportedID && !o.DryRun {
		if err := s.noteImported(ctx); err != nil {
			return "", err
		}
	}
	return s.importRecord(ctx, r.App, o, func() (answer, error) {
		return s.run(ctx, importTokenScript, r.App, []string{r.ID}, m, args...)
	})
}

// arguments are those that both scripts begin with.
func (o ImportOptions) arguments(version int64) []any {
	dry, existing := "", ""
	if o.DryRun {
		dry = "1"
	}
	if o.Existing == ExistingReplace {
		existing = "replace"
	}
	return []any{dry, existing, version, newOp()}
}

// vanishes is when a token is kept until; false: for ever.
func (r TokenRecord) vanishes() (at time.Time, ok bool) {
	if !r.Expires.IsZero() {
		at = r.Expires.Add(24 * time.Hour)
	}
	if !r.Revoked.IsZero() {
		if end := r.Revoked.Add(tombstone); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return at, !at.IsZero()
}

func (s *Store) importRecord(ctx context.Context, app string, o ImportOptions, run func() (answer, error)) (ImportResult, error) {
	if !o.DryRun {
		if err := s.register(ctx, app); err != nil {
			return "", err
		}
	}
	answer, err := run()
	if err != nil {
		return "", err
	}
	switch answer.word {
	case "same":
		return Kept, nil
	case "another":
		if o.Existing == ExistingFail {
			return "", ErrExists
		}
		return Kept, nil
	case "many":
		return "", ErrTooMany
	}
	if o.DryRun {
		return ImportResult(answer.word), nil
	}
	return ImportResult(answer.word), s.register(ctx, app)
}

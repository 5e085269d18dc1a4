package tenant

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ImportedID is the id of a token that came from zRPC's hash. Such a token has
// no public part of its own, and an app has only one there. (An id that is made
// from the token would give its guessers something to try against, wherever ids
// are seen.)
const ImportedID = "importedfromzrpc"

// ParseImported reads the text of a token that may have come from zRPC's hash.
// One of rpcgate's own is never such a token. Errors: [ErrInput].
func ParseImported(text string) (ParsedToken, error) {
	if fault := TokenFault(text); fault != "" {
		return ParsedToken{}, &InputError{"token", fault}
	}
	if strings.HasPrefix(text, tokenPrefix) {
		return ParsedToken{}, errTokenForm
	}
	return ParsedToken{ImportedID, HashOf(text)}, nil
}

// GoZeroOptions say how zRPC's tokens are imported.
type GoZeroOptions struct {
	// DryRun finds out what would be done, and changes nothing.
	DryRun bool
	// Report, unless nil, is told of each app, perhaps more than once; refused
	// says why its token was not taken. An app id that is none is quoted.
	Report func(app string, result ImportResult, refused error)
}

// GoZeroSummary counts what became of zRPC's tokens.
type GoZeroSummary struct {
	ImportSummary
	Refused int
}

// errEnded is told of a token that shall not come to life again.
var errEnded = errors.New("it was revoked or rotated here, and stays so")

// ImportGoZero makes records of the plain tokens in zRPC's hash, app to token,
// under key. They stay valid, and only their hashes are kept: what callers
// present does not change. It can be repeated while zRPC is still in use: an app
// whose token was changed there gets the new one, and what was revoked or
// rotated here stays so. What cannot be a credential is refused and reported,
// and the rest goes on. The hash itself is only read, in pieces.
func ImportGoZero(ctx context.Context, from redis.UniversalClient, key string, to *Store, o GoZeroOptions) (GoZeroSummary, error) {
	var sum GoZeroSummary
	if err := to.own(); err != nil {
		return sum, fmt.Errorf("import from zRPC's hash: %w", err)
	}
	for cursor := uint64(0); ; {
		// Apps and tokens in turn.
		pairs, next, err := from.HScan(ctx, key, cursor, "", batch).Result()
		if err != nil {
			return sum, fmt.Errorf("read zRPC's hash %s: %w", key, err)
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			result, refused, err := to.importPlain(ctx, pairs[i], pairs[i+1], o.DryRun)
			if err != nil {
				return sum, fmt.Errorf("import the token of app %s: %w", pairs[i], err)
			}
			if refused != nil {
				sum.Refused++
			}
			sum.count(result)
			if o.Report != nil {
				o.Report(reportName(pairs[i]), result, refused)
			}
		}
		if cursor = next; cursor == 0 {
			return sum, nil
		}
	}
}

func reportName(app string) string {
	if AppFault(app) != "" {
		return fmt.Sprintf("%.100q", app)
	}
	return app
}

// importPlain takes a plain token, or refuses it.
func (s *Store) importPlain(ctx context.Context, app, text string, dry bool) (result ImportResult, refused, err error) {
	if err := ValidateApp(app); err != nil {
		return "", err, nil
	}
	token, err := ParseImported(text)
	switch {
	case errors.Is(err, errTokenForm):
		return "", &InputError{"token", "the token begins like one of rpcgate's own"}, nil
	case err != nil:
		return "", err, nil
	}
	flag := ""
	if dry {
		flag = "1"
	} else if err := errors.Join(s.noteImported(ctx), s.register(ctx, app)); err != nil {
		return "", nil, err
	}
	answer, err := s.run(ctx, importPlainScript, app, []string{ImportedID}, Message{KindReplaced, app, ImportedID},
		ImportedID, hex.EncodeToString(token.hash[:]), MaxTokens, newOp(), flag)
	if err != nil {
		return "", nil, err
	}
	switch answer.word {
	case "ended":
		return "", errEnded, nil
	case "many":
		return "", ErrTooMany, nil
	case "same":
		result = Kept
	default:
		result = ImportResult(answer.word)
	}
	if !dry {
		err = s.register(ctx, app)
	}
	return result, nil, err
}

// What an operator has said of the token holds for its successor.
const importPlainScript = `
-- id, hash, most, op, dry
local key = KEYS[4]
local was = redis.call('HMGET', key, 'hash', 'replaced_by')
if was[1] then
  if was[2] or dead(key) then return {'ended'} end
  if was[1] == ARGV[5] then return {'same'} end
  if ARGV[8] ~= '1' then
    redis.call('HSET', key, 'hash', ARGV[5])
    redis.call('HINCRBY', key, 'version', 1)
    tell()
  end
  return {'replaced'}
end
if redis.call('ZCARD', ids) >= tonumber(ARGV[6]) then return {'many'} end
if ARGV[8] ~= '1' then
  found(ARGV[7])
  redis.call('HSET', key, 'hash', ARGV[5], 'created', now, 'expires', '0', 'epoch', integer(epoch()), 'version', 1, 'note', 'from zRPC')
  keep(key, ARGV[4], '+inf')
  prune()
  tell()
end
return {'created'}`

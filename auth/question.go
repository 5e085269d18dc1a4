package auth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rpcgate/rpcgate/auth/tenant"
	"github.com/rpcgate/rpcgate/config"
)

// A Question asks gateways what they make of a credential. It holds no secret,
// but the hash that Redis has anyway.
type Question struct {
	App     string `json:"app"`
	TokenID string `json:"token_id,omitempty"`
	// Hash is the SHA-256 of the secret; empty: that it is the right one is taken
	// for granted.
	Hash []byte `json:"hash,omitempty"`
	// From is the address that it is used from; empty: an allowed one.
	From string `json:"from,omitempty"`
}

// NewQuestion asks about a credential as a caller presents it. Errors:
// [ErrMalformed], [ErrInvalid].
func NewQuestion(cfg config.Auth, c Credential, from string) (Question, error) {
	if err := ValidateApp(c.App); err != nil {
		return Question{}, err
	}
	id, hash, err := newLayout(nil, cfg, new(imported)).parse(c.Token)
	if err != nil {
		return Question{}, &Error{kind: ErrInvalid, cause: err}
	}
	return Question{App: c.App, TokenID: id, Hash: hash[:], From: from}, nil
}

// A Verdict is what becomes of a credential at one gateway.
type Verdict string

// The verdicts. VerdictUnknown is that of a wrong secret, too; VerdictUnavailable
// says that Redis could not be asked, and that the gateway remembers nothing.
const (
	VerdictValid       Verdict = "valid"
	VerdictUnknown     Verdict = "unknown"
	VerdictRevoked     Verdict = "revoked"
	VerdictExpired     Verdict = "expired"
	VerdictSuspended   Verdict = "suspended"
	VerdictSource      Verdict = "source_not_allowed"
	VerdictUnavailable Verdict = "unavailable"
)

// verdictOf names the outcome of a verification.
func verdictOf(err error) Verdict {
	switch {
	case err == nil:
		return VerdictValid
	case errors.Is(err, ErrRevoked):
		return VerdictRevoked
	case errors.Is(err, ErrExpired):
		return VerdictExpired
	case errors.Is(err, ErrSuspended):
		return VerdictSuspended
	case errors.Is(err, ErrInvalid):
		return VerdictUnknown
	default:
		return VerdictUnavailable
	}
}

// Answer is what one gateway says.
type Answer struct {
	Node    string  `json:"node"`
	Verdict Verdict `json:"verdict"`
	// Cached tells that the gateway remembered it, and did not ask Redis.
	Cached bool `json:"cached"`
}

// asked is a question on its way.
type asked struct {
	Nonce string `json:"nonce"`
	Question
}

const (
	// askTimeout is how long answers are waited for.
	askTimeout = 3 * time.Second
	// askInterval is how often it is looked for them.
	askInterval = 20 * time.Millisecond
	// answersLife is how long answers are kept that nobody fetches.
	answersLife = 30 * time.Second
)

// AskNodes asks every gateway that shares the Redis, and gives their answers by
// the names of the gateways. Missing are those that run, by their last sign of
// life, and did not answer within three seconds, or until ctx ends. The error is
// that of Redis.
func AskNodes(ctx context.Context, rdb redis.UniversalClient, keys tenant.Keys, q Question) (answers []Answer, missing []string, err error) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	running, err := runningNodes(limited, rdb, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("list the gateways: %w", err)
	}
	nonce := strings.ToLower(rand.Text())
	text, err := json.Marshal(asked{nonce, q})
	if err != nil {
		return nil, nil, fmt.Errorf("ask the gateways: %w", err)
	}
	heard, err := rdb.Publish(limited, keys.Questions(), text).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("ask the gateways: %w", err)
	}
	if heard == 0 && len(running) == 0 {
		return nil, nil, nil
	}
	answers, err = collectAnswers(limited, rdb, keys.Answers(nonce), running)
	slices.SortFunc(answers, func(a, b Answer) int { return strings.Compare(a.Node, b.Node) })
	for _, id := range running {
		if !slices.ContainsFunc(answers, func(a Answer) bool { return a.Node == id }) {
			missing = append(missing, id)
		}
	}
	return answers, missing, err
}

// collectAnswers waits until all have answered, or ctx ends.
func collectAnswers(ctx context.Context, rdb redis.UniversalClient, list string, from []string) ([]Answer, error) {
	waiting := make(map[string]bool, len(from))
	for _, id := range from {
		waiting[id] = true
	}
	var answers []Answer
	for {
		texts, err := rdb.LRange(ctx, list, int64(len(answers)), -1).Result()
		switch {
		case err == nil:
		case isOver(ctx):
			return answers, nil
		default:
			return answers, fmt.Errorf("read the gateways' answers: %w", err)
		}
		for _, text := range texts {
			var a Answer
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				return answers, fmt.Errorf("a gateway's answer: %w", err)
			}
			answers = append(answers, a)
			delete(waiting, a.Node)
		}
		if len(from) > 0 && len(waiting) == 0 || !sleep(ctx, askInterval) {
			return answers, nil
		}
	}
}

// isOver tells whether ctx ended, or is about to: a connection that has its
// deadline may notice first.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxAnswering bounds the questions that are answered at once.
const maxAnswering = 16

// answerQuestions hears the channel of questions and answers them until ctx
// ends. It is a subscription of its own: without the right to it, or whatever
// comes over it, revocations are heard all the same.
func (v *Verifier) answerQuestions(ctx context.Context) {
	wait, told := v.timing.minWait, false
	for {
		start := time.Now()
		err := v.answerWhileHeard(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > v.timing.maxWait {
			wait, told = v.timing.minWait, false
		}
		if !told {
			told = true
			log := v.log
			if redis.IsPermissionError(err) {
				log = log.With("hint", "the ACL user needs the right to this channel")
			}
			log.InfoContext(ctx, "questions of operators cannot be heard; trying again", "channel", v.keys.Questions(), "error", err)
		}
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, v.timing.maxQuestionsWait)
	}
}

func (v *Verifier) answerWhileHeard(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, maxAnswering)
	_, err := v.listen(ctx, v.keys.Questions(), func() {}, func(text string) {
		var q asked
		if err := json.Unmarshal([]byte(text), &q); err != nil || !validNonce(q.Nonce) || ValidateApp(q.App) != nil {
			v.log.DebugContext(ctx, "a question that makes no sense", "channel", v.keys.Questions())
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			v.answer(ctx, q)
		})
	})
	return err
}

// validNonce keeps a question from choosing the key that is written to.
func validNonce(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(s) >= 16 && len(s) <= 64
}

func (v *Verifier) answer(ctx context.Context, q asked) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a := v.Judge(ctx, q.Question)
	text, err := json.Marshal(a)
	if err == nil {
		_, err = v.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, v.keys.Answers(q.Nonce), text)
			p.PExpire(ctx, v.keys.Answers(q.Nonce), answersLife)
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		v.log.InfoContext(ctx, "a question could not be answered", "error", err)
	}
}

// Judge says what this gateway makes of a credential, as it would of a call with
// it.
func (v *Verifier) Judge(ctx context.Context, q Question) Answer {
	a := Answer{Node: v.node.id}
	if !v.layout.hasID(q.TokenID) { // nor is it remembered: it may be of any length
		a.Verdict = VerdictUnknown
		return a
	}
	var hash *[sha256.Size]byte
	switch len(q.Hash) {
	case 0:
	case sha256.Size:
		hash = (*[sha256.Size]byte)(q.Hash)
	default:
		a.Verdict = VerdictUnknown
		return a
	}
	k := cacheKey{q.App, q.TokenID}
	_, a.Cached = v.cache.Fresh(k)
	r, err := v.find(ctx, k, hash)
	if err == nil {
		if hash == nil {
			hash = &r.hash
		}
		err = r.verdict(*hash)
	}
	if a.Verdict = verdictOf(err); a.Verdict == VerdictValid && q.From != "" && !r.principal.AllowsFrom(q.From) {
		a.Verdict = VerdictSource
	}
	if errors.Is(err, ErrUnavailable) {
		a.Cached = false
	}
	return a
}

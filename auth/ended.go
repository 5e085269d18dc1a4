package auth

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxEnded bounds how many revocations a process remembers: those heard or seen
// last.
const maxEnded = 16384

// ended remembers which tokens were revoked. A revocation is final, and Redis may
// forget it: a replica that has not heard of it yet becomes master, or a backup
// is restored. For a process that knew, the token stays revoked all the same.
type ended struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[cacheKey, bool] // whether Redis was seen to have forgotten
}

func newEnded() *ended {
	tokens, err := simplelru.NewLRU[cacheKey, bool](maxEnded, nil)
	if err != nil {
		panic(err) // of a size below one
	}
	return &ended{tokens: tokens}
}

// add is for one token. What befalls all of an app's may be taken back.
func (e *ended) add(k cacheKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens.Add(k, false)
}

// has tells whether k was revoked, and, after Redis said otherwise, whether this
// is the first time since it did not.
func (e *ended) has(k cacheKey) (revoked, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen, revoked := e.tokens.Get(k)
	if revoked && !seen {
		e.tokens.Add(k, true)
	}
	return revoked, revoked && !seen
}

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
	tokens *simplelru.LRU[cacheKey, struct{}]
}

func newEnded() *ended {
	tokens, err := simplelru.NewLRU[cacheKey, struct{}](maxEnded, nil)
	if err != nil {
		panic(err) // of a size below one
	}
	return &ended{tokens: tokens}
}

// add is for one token. What befalls all of an app's may be taken back.
func (e *ended) add(k cacheKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens.Add(k, struct{}{})
}

func (e *ended) has(k cacheKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tokens.Contains(k)
}

package auth

import (
	"context"
	"time"
)

// deafPass bounds one pass over what is remembered.
const deafPass = 30 * time.Second

// verifyWhileDeaf looks everything remembered up again and again while
// revocations cannot be heard, until ctx ends. What is in use is looked up by its
// calls; but a stream that was opened long ago makes none, and must end when its
// credential does. A pass may take a tenth of the time.
func (v *Verifier) verifyWhileDeaf(ctx context.Context) {
	for wait := v.timing.deafInterval; sleep(ctx, wait); {
		wait = v.timing.deafInterval
		if v.hearing.Load() || !v.store.answers.Load() {
			continue
		}
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, deafPass)
		v.verify(limited, v.cache.Keys())
		cancel()
		wait = max(wait, 9*time.Since(start))
	}
}

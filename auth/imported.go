package auth

import (
	"context"
	"crypto/sha256"
	"sync/atomic"

	"github.com/rpcgate/rpcgate/auth/tenant"
)

// imported is what is known of plain tokens that came from zRPC. The zero value
// knows nothing yet, nil that there are none.
type imported struct{ answer atomic.Int32 }

const (
	importedUnknown int32 = iota
	importedNone
	importedSome
)

func (i *imported) note(some bool) {
	if some {
		i.answer.Store(importedSome)
	} else { // the answer may be older than the message of the first
		i.answer.CompareAndSwap(importedUnknown, importedNone)
	}
}

// parse reads the text of a token: rpcgate's own, or a plain one, unless it is
// known that there are none. So whoever makes something up costs Redis nothing
// where none were imported, and none that was is refused unasked.
func (i *imported) parse(text string) (id string, hash [sha256.Size]byte, err error) {
	t, err := tenant.ParseToken(text)
	if err != nil && i != nil && i.answer.Load() != importedNone {
		if plain, plainErr := tenant.ParseImported(text); plainErr == nil {
			t, err = plain, nil
		}
	}
	return t.ID, t.Hash(), err
}

// watchImported looks from time to time whether tokens came from zRPC, until
// they did or ctx ends. The message of the first is mostly faster.
func (v *Verifier) watchImported(ctx context.Context) {
	for v.layout.keepsUses() && v.imported.answer.Load() != importedSome {
		limited, cancel := context.WithTimeout(ctx, v.loadTimeout)
		some, err := tenant.Imported(limited, v.rdb, v.keys)
		cancel()
		if err == nil {
			v.imported.note(some)
		}
		if !sleep(ctx, v.timing.beatInterval) {
			return
		}
	}
}

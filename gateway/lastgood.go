package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

// lastGood keeps the good answers of one method, each for the calls that it was
// the answer of: the same request, of the same app and token, with the same
// metadata. It is bounded by the number of answers, and by the size of each.
type lastGood struct {
	cfg   config.LastGood
	cache *lru.Cache[lastGoodKey, goodAnswer]
}

// lastGoodKey is the SHA-256 of all that decides an answer, so that no caller
// can make two that are the same.
type lastGoodKey [sha256.Size]byte

type goodAnswer struct {
	msg  []byte
	came time.Time
}

// lastGoodID tells which routes keep their answers together.
type lastGoodID struct {
	backend, method string
	cfg             config.LastGood
}

// lastGood gives a route's answers, with those of the snapshot before.
func (k *keptOver) lastGood(r *routes.Route, cfg config.LastGood) (*lastGood, error) {
	id := lastGoodID{r.Backend, r.FullMethod, cfg}
	if g := k.good[id]; g != nil {
		return g, nil
	}
	if k.before != nil && k.before.good[id] != nil {
		k.good[id] = k.before.good[id]
		return k.good[id], nil
	}
	cache, err := lru.New[lastGoodKey, goodAnswer](cfg.Entries)
	if err != nil {
		return nil, fmt.Errorf("route %s: last good answers: %w", r, err)
	}
	g := &lastGood{cfg: cfg, cache: cache}
	k.good[id] = g
	return g, nil
}

// keep keeps the answer to a request.
func (g *lastGood) keep(c *Call, request, answer mem.BufferSlice) {
	if int64(answer.Len()) > int64(g.cfg.MaxSize) {
		g.cache.Remove(keyOfCall(c, request)) // the answer before is no longer the last one
		return
	}
	g.cache.Add(keyOfCall(c, request), goodAnswer{msg: answer.Materialize(), came: time.Now()})
}

// recall gives the last good answer to a request, and its age.
func (g *lastGood) recall(c *Call, request mem.BufferSlice) (msg []byte, age time.Duration, ok bool) {
	key := keyOfCall(c, request)
	kept, ok := g.cache.Get(key)
	if !ok {
		return nil, 0, false
	}
	age = time.Since(kept.came)
	if age > g.cfg.MaxAge {
		g.cache.Remove(key)
		return nil, 0, false
	}
	return kept.msg, age, true
}

// keyOfCall is the key of a call's answer. What differs from call to call and
// is about the call itself, and not about what is wanted, is not in it.
func keyOfCall(c *Call, request mem.BufferSlice) (key lastGoodKey) {
	h := sha256.New()
	app, token := "", ""
	if c.Principal != nil {
		// The token itself: in zRPC's layout an app's tokens, one after the other,
		// have no id to tell them apart.
		app, token = c.Principal.App, c.Credential.Token
	}
	hashText(h, app)
	hashText(h, token)
	for _, name := range slices.Sorted(maps.Keys(c.Metadata)) {
		switch name {
		case keyRequestID, keyForwardedFor, keyIdempotency, "traceparent", "tracestate":
			continue
		}
		hashText(h, name)
		values := c.Metadata[name]
		hashLength(h, len(values))
		for _, value := range values {
			hashText(h, value)
		}
	}
	hashText(h, "") // no name is empty: here the request begins
	for _, b := range request {
		h.Write(b.ReadOnlyData())
	}
	h.Sum(key[:0])
	return key
}

// hashText hashes a text with its length before it, so that no two lists of
// texts are the same bytes.
func hashText(h hash.Hash, text string) {
	hashLength(h, len(text))
	h.Write([]byte(text))
}

func hashLength(h hash.Hash, n int) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(n))
	h.Write(length[:])
}

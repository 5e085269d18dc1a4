package gateway

import (
	"net/http"
	"strings"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// compressions finds the configured encodings.
func compressions(all *wire.Compressors, names []string) []*wire.Compression {
	var found []*wire.Compression
	for _, name := range names {
		if c := all.Find(name); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// compress compresses a whole answer as its caller can take it; nil: it stays as
// it is. Who gets the result gives it back to the buffers.
func (p *jsonPeer) compress(body []byte) *[]byte {
	if len(body) < int(p.front.cfg.Compression.MinSize) || len(body) == 0 {
		return nil
	}
	c := p.encoding()
	if c == nil {
		return nil
	}
	out := p.front.buffers.room(len(body) / 2)
	packed, err := c.Compress(*out, body)
	if err != nil || len(packed) >= len(body) {
		p.front.buffers.Put(out)
		return nil
	}
	*out = packed
	p.w.Header().Set("Content-Encoding", c.Name())
	return out
}

// encoding picks how an answer, whose media type is known, is compressed, and
// says so to caches; nil: not at all.
func (p *jsonPeer) encoding() *wire.Compression {
	h := p.w.Header()
	if len(p.front.encodings) == 0 || !compressible(h["Content-Type"]) {
		return nil
	}
	if _, varies := h["Vary"]; varies {
		h.Add("Vary", "Accept-Encoding")
	} else {
		h["Vary"] = p.front.vary
	}
	return acceptedEncoding(p.r.Header["Accept-Encoding"], p.front.encodings)
}

// compressible tells texts from what is compressed already, or may well be.
func compressible(contentType []string) bool {
	if len(contentType) == 0 {
		return false
	}
	kind := mediaType(contentType[0])
	switch kind {
	case "application/json", "application/x-ndjson", "application/problem+json", "application/javascript", "application/xml",
		"application/wasm", "application/x-protobuf", "application/protobuf", "application/yaml", "application/sql":
		return true
	case "text/event-stream":
		// A compressor's memory for as long as a page is open, for messages of a
		// few bytes each.
		return false
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		strings.HasSuffix(kind, "+yaml")
}

// compressionOf is how a request's body is compressed; nil: it is not.
func compressionOf(h http.Header, all *wire.Compressors) (*wire.Compression, error) {
	given := h["Content-Encoding"]
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // neither compressed nor wrong
	}
	name := strings.ToLower(strings.TrimSpace(strings.Join(given, ",")))
	switch name {
	case "", wire.Identity:
		return nil, nil //nolint:nilnil // as above
	case "x-gzip":
		name = wire.Gzip
	}
	if c := all.Find(name); c != nil {
		return c, nil
	}
	return nil, errContentEncoding
}

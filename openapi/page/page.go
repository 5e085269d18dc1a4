// Package page serves a page that shows an OpenAPI document and tries its
// operations out: Swagger UI, from this binary, with no request to anywhere
// else. Its content security policy lets it do no more than that.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/swaggest/swgui/v5/static"
)

// Prefix is the path of the page: its own, and what the rest of it is under.
// The document is expected beside it, at /openapi.json.
const Prefix = "/docs/"

var (
	//go:embed index.html
	indexHTML []byte
	//go:embed init.js
	initJS []byte
)

// Page is the page's handler; it expects paths under [Prefix].
type Page struct {
	files  map[string]*File // by name; that of the page itself is empty
	policy string
}

// New makes the page. origins are those that it may call besides its own, as a
// content security policy has them: http://*:8080.
func New(origins ...string) (*Page, error) {
	p := &Page{
		files: map[string]*File{
			"":        newFile("text/html; charset=utf-8", indexHTML),
			"init.js": newFile("text/javascript; charset=utf-8", initJS),
		},
		policy: "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
			"connect-src " + strings.Join(append([]string{"'self'"}, origins...), " ") + "; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
	for name, mediaType := range map[string]string{
		"swagger-ui-bundle.js": "text/javascript; charset=utf-8",
		"swagger-ui.css":       "text/css; charset=utf-8",
	} {
		compressed, err := static.FS.ReadFile(name + ".gz")
		if err != nil {
			return nil, fmt.Errorf("the documentation page: %w", err)
		}
		p.files[name] = newCompressedFile(mediaType, compressed)
	}
	icon, err := static.FS.ReadFile("favicon-32x32.png")
	if err != nil {
		return nil, fmt.Errorf("the documentation page: %w", err)
	}
	p.files["favicon-32x32.png"] = newFile("image/png", icon)
	return p, nil
}

// Has tells whether a path is one of the page's.
func (p *Page) Has(path string) bool {
	name, ok := strings.CutPrefix(path, Prefix)
	return ok && p.files[name] != nil || path+"/" == Prefix
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, Prefix)
	file := p.files[name]
	switch {
	case r.URL.Path+"/" == Prefix:
		// Relative, since a proxy may have taken off what stands before it.
		w.Header().Set("Location", strings.TrimPrefix(Prefix, "/"))
		w.WriteHeader(http.StatusFound)
		return
	case !ok || file == nil:
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	file.ServeHTTP(w, r)
}

// A File is served from memory: compressed to those who can have it so, and not
// again to those who have it.
type File struct {
	mediaType         string
	plain, compressed []byte // one of them may be missing
	tag               string
}

// minCompressed is the size from which on compressing pays.
const minCompressed = 1 << 10

func newFile(mediaType string, content []byte) *File {
	return &File{mediaType: mediaType, plain: content, tag: tagOf(content)}
}

func newCompressedFile(mediaType string, compressed []byte) *File {
	return &File{mediaType: mediaType, compressed: compressed, tag: tagOf(compressed)}
}

// NewFile makes a file of text, which it compresses unless it is small.
func NewFile(mediaType string, content []byte) *File {
	f := newFile(mediaType, content)
	if len(content) < minCompressed {
		return f
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content) // a buffer takes it all
	_ = w.Close()
	f.compressed = b.Bytes()
	return f
}

func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:12])
}

// ServeHTTP implements [http.Handler].
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache") // ask again; there is a tag
	content, tag := f.plain, f.tag
	if f.compressed != nil {
		h.Add("Vary", "Accept-Encoding") // beside that of CORS
		if takesGzip(r.Header) {
			h.Set("Content-Encoding", "gzip")
			content, tag = f.compressed, f.tag+"-gzip"
		}
	}
	if content == nil {
		var err error
		if content, err = unpack(f.compressed); err != nil { // never: it was compressed well
			http.Error(w, "cannot be unpacked", http.StatusInternalServerError)
			return
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// takesGzip tells whether the caller takes gzip. Who forbids it by its weight
// gets the plain text.
func takesGzip(h http.Header) bool {
	for _, line := range h["Accept-Encoding"] {
		for element := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(element, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				value, weighted := strings.CutPrefix(strings.TrimSpace(weight), "q=")
				return !weighted || strings.Trim(value, "0.") != ""
			}
		}
	}
	return false
}

func unpack(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

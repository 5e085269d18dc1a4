package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/openapi"
	"github.com/rpcgate/rpcgate/openapi/page"
	"github.com/rpcgate/rpcgate/routes"
)

// Paths of the OpenAPI document.
const (
	openAPIJSON = "/openapi.json"
	openAPIYAML = "/openapi.yaml"
)

// docs serves the OpenAPI document of the routes in force, and a page that shows
// it, on one of the ports.
type docs struct {
	g       *Gateway
	port    docsPort
	options func() openapi.Options
	page    *page.Page
}

// docsPort is where the docs are read; it decides where the document says that
// calls go.
type docsPort uint8

const (
	docsAtEdge docsPort = iota
	docsAtAdmin
	docsPorts
)

// newEdgeDocs makes the docs for callers, where their calls go too.
func newEdgeDocs(g *Gateway) (*docs, error) {
	p, err := page.New()
	if err != nil {
		return nil, err
	}
	o := DocumentOptions(g.cfg.HTTP, nil)
	o.Servers = []openapi.Server{{URL: "/"}}
	return &docs{g: g, port: docsAtEdge, page: p, options: func() openapi.Options { return o }}, nil
}

// newAdminDocs makes the docs for operators: calls go to the HTTP port. A
// browser lets the page do that where http.cors has the page's origin.
func newAdminDocs(g *Gateway) (*docs, error) {
	p, err := page.New(httpOrigins(g.cfg.HTTP)...)
	if err != nil {
		return nil, err
	}
	return &docs{g: g, port: docsAtAdmin, page: p, options: func() openapi.Options { return DocumentOptions(g.cfg.HTTP, g.HTTPAddr()) }}, nil
}

// DocumentOptions are the options of an OpenAPI document that is read elsewhere
// than on the HTTP port, which is where its calls go. listening is the port's
// address where it is open, or nil.
func DocumentOptions(cfg config.HTTP, listening net.Addr) openapi.Options {
	return openapi.Options{
		Servers:     httpServers(cfg, listening),
		Errors:      cfg.Errors,
		WithoutJSON: !slices.Contains(cfg.Protocols, protocolJSON.String()),
		Connect:     slices.Contains(cfg.Protocols, protocolConnect.String()),
	}
}

// httpServers gives the base of calls to the HTTP port.
func httpServers(cfg config.HTTP, listening net.Addr) []openapi.Server {
	if cfg.Address == config.Off {
		return nil
	}
	scheme, host, port := httpBase(cfg)
	if tcp, ok := listening.(*net.TCPAddr); ok {
		port = strconv.Itoa(tcp.Port)
	}
	if host != "" {
		return []openapi.Server{{URL: scheme + "://" + net.JoinHostPort(host, port)}}
	}
	return []openapi.Server{{
		URL:       scheme + "://{host}:" + port,
		Variables: []openapi.Variable{{Name: "host", Default: "localhost", Description: "The gateway's host."}},
	}}
}

// httpOrigins is the same for a content security policy.
func httpOrigins(cfg config.HTTP) []string {
	if cfg.Address == config.Off {
		return nil
	}
	scheme, host, port := httpBase(cfg)
	if host == "" {
		host = "*"
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "0" {
		port = "*"
	}
	return []string{scheme + "://" + host + ":" + port}
}

// httpBase takes apart the configured address of the HTTP port. The host is
// empty where it listens on all addresses.
func httpBase(cfg config.HTTP) (scheme, host, port string) {
	scheme = "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	host, port, _ = net.SplitHostPort(cfg.Address) // config has checked it
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return scheme, host, port
}

// has tells whether a path is one of the docs'.
func (d *docs) has(path string) bool {
	return path == openAPIJSON || path == openAPIYAML || d.page.Has(path)
}

// answer tells whether a request that the routes have no place for is one for
// the docs. d may be nil.
func (d *docs) answer(r *http.Request, noRoute error) bool {
	if d == nil || r.Method != http.MethodGet && r.Method != http.MethodHead || !d.has(r.URL.Path) {
		return false
	}
	_, notFound := errors.AsType[*routes.NotFoundError](noRoute)
	return notFound
}

// ServeHTTP implements [http.Handler].
func (d *docs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != openAPIJSON && r.URL.Path != openAPIYAML {
		d.page.ServeHTTP(w, r)
		return
	}
	snap := d.g.snapshot.Load() // there before any port is open
	files := &snap.docs[d.port]
	files.build(snap.table, d.options)
	if r.URL.Path == openAPIJSON {
		files.json.ServeHTTP(w, r)
		return
	}
	if files.err != nil {
		http.Error(w, files.err.Error(), http.StatusInternalServerError)
		return
	}
	files.yaml.ServeHTTP(w, r)
}

// docsFiles is a snapshot's document, which is made when it is first asked for.
type docsFiles struct {
	once       sync.Once
	json, yaml *page.File
	err        error // why there is no yaml
}

func (f *docsFiles) build(t *routes.Table, options func() openapi.Options) {
	f.once.Do(func() {
		d := openapi.New(t, options())
		f.json = page.NewFile("application/json", d.JSON())
		text, err := d.YAML()
		if err != nil {
			f.err = fmt.Errorf("the OpenAPI document: %w", err)
			return
		}
		f.yaml = page.NewFile("application/yaml", text)
	})
}

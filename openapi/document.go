package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/rpcgate/rpcgate/routes"
)

// Options say what the table does not.
type Options struct {
	// Title names the API; empty: rpcgate.
	Title string
	// Version is that of the API; empty: a hash of the document.
	Version string
	// Servers are where calls go; none: to where the document comes from.
	Servers []Server
	// WithoutJSON leaves out the routes with an HTTP method and path of their own:
	// JSON is not spoken.
	WithoutJSON bool
	// Connect adds the unary methods without a route of their own over HTTP, as
	// Connect's callers reach them.
	Connect bool
	// Errors is how errors look where a route doesn't say: status (as also when
	// empty), problem or envelope, as http.errors has it.
	Errors string
	// Token says what the bearer token is that callers present, who may have a
	// certificate instead; empty: they are apps, and present an app's credential.
	Token string
}

// A Server is a base of the document's paths.
type Server struct {
	// URL may be relative to the document's, and hold variables: {host}.
	URL         string
	Description string
	Variables   []Variable
}

// A Variable is a part of a server's URL that readers choose.
type Variable struct{ Name, Default, Description string }

// A Document is an OpenAPI document of a route table. It is not changed once
// made, and may be used from many goroutines at once.
type Document struct {
	json    []byte
	root    object
	omitted []string
}

// New describes the routes of a table.
func New(t *routes.Table, o Options) *Document {
	if o.Title == "" {
		o.Title = "rpcgate"
	}
	b := newBuilder(t, o)
	reached := make(map[string]bool) // full methods
	for _, r := range t.Routes() {
		if r.HTTPMethod != "" && !o.WithoutJSON {
			b.add(r)
			reached[r.FullMethod] = true
		}
	}
	if o.Connect {
		for _, r := range connectRoutes(t, reached) {
			b.add(r)
		}
	}
	d := &Document{root: b.document(o.Version), omitted: b.omitted}
	d.json = appendJSON(nil, d.root)
	if o.Version == "" {
		sum := sha256.Sum256(d.json)
		d.root = b.document(hex.EncodeToString(sum[:6]))
		d.json = appendJSON(nil, d.root)
	}
	return d
}

// JSON gives the document as JSON, on one line. It must not be changed.
func (d *Document) JSON() []byte { return d.json }

// Indented gives the document as JSON for reading, with a newline at its end.
func (d *Document) Indented() []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, d.json, "", "  ") // our own JSON is well-formed
	b.WriteByte('\n')
	return b.Bytes()
}

// YAML gives the document as YAML.
func (d *Document) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(d.root)); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	return b.Bytes(), nil
}

// Omitted names the routes that the document leaves out, each with the reason.
func (d *Document) Omitted() []string { return d.omitted }

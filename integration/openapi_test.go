package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/testbackend"
)

// described is a gateway's OpenAPI document, as an independent library has it.
type described struct {
	rig    *rig
	doc    *openapi3.T
	router routers.Router
}

func describe(t *testing.T, r *rig) *described {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(r.AdminGet("/openapi.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(doc.Servers) != 1 || doc.Servers[0].URL != "http://"+r.HTTP {
		t.Errorf("on the admin port calls go to %v, not to %s", doc.Servers, r.HTTP)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &described{r, doc, router}
}

// check makes a call, and checks request and answer with the document.
func (d *described) check(t *testing.T, status int, method, target, body, mediaType string, header ...string) {
	t.Helper()
	if !slices.Contains(header, "Authorization") {
		header = append(header, "Authorization", d.rig.bearer())
	}
	if body != "" {
		header = append(header, "Content-Type", mediaType)
	}
	req := d.rig.request(t, t.Context(), method, target, body, header...)
	route, vars, err := d.router.FindRoute(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, target, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: vars, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
		t.Errorf("%s %s: the request: %v", method, target, err)
	}
	a := d.rig.do(t, d.rig.http1, method, target, body, header...)
	if a.Status != status {
		t.Errorf("%s %s: %d %s", method, target, a.Status, a.Body)
		return
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.Status, Header: a.Header, Body: io.NopCloser(strings.NewReader(a.Body)),
		Options: in.Options,
	})
	if err != nil {
		t.Errorf("%s %s: the answer: %v\n%s", method, target, err, a.Body)
	}
}

// What the gateway takes and answers is what its document says, in each format
// of errors and with each option of JSON.
func TestOpenAPIDescribesCalls(t *testing.T) {
	t.Parallel()
	const body = `{"text":"a","number":"12","real":1.5,"data":"AQ==","colour":"RED","sub":{"name":"s","inner":{"size":"1"}},` +
		`"labels":{"a":"b"},"subByName":{"x":{"name":"y"}},"right":"3","wrappedText":"w","time":"2006-01-02T15:04:05Z","duration":"1.5s"}`
	for _, tt := range []struct{ name, backend, http string }{
		{"status", "", ""},
		{"problem", "", "http: {address: \"127.0.0.1:0\", errors: problem}\n"},
		{"envelope", "errors: envelope\nforms: true\n", ""},
		{"terse", "json: {emit_defaults: false}\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newEchoRig(t, tt.backend, tt.http)
			d := describe(t, r)
			d.check(t, 200, "POST", "/v1/echo", body, "application/json")
			d.check(t, 200, "POST", "/testbackend.Echo/Unary", body, "application/json")
			d.check(t, 200, "GET", "/v1/echo?text=a&number=3&texts=x&texts=y&colours=RED&labels[a]=b&sub.inner.name=n&wrappedFlag=true&time=2006-01-02T15:04:05Z", "", "")
			d.check(t, 200, "PUT", "/v1/echo/words?number=3", `{"name":"s"}`, "application/json")
			d.check(t, 200, "PATCH", "/v1/echo/me?text=a", `{"colour":"GREEN"}`, "application/json")
			d.check(t, 200, "POST", "/v1/echo:shout", body, "application/json")
			d.check(t, 200, "POST", "/v1/echo/list", `[{"name":"s"},{"size":"3"}]`, "application/json")
			d.check(t, 200, "DELETE", "/v1/echo/7?flag=true", "", "")
			d.check(t, 200, "GET", "/v1/shelves/1/books/2", "", "")
			d.check(t, 200, "POST", "/v1/raw", "any bytes", "text/plain")
			d.check(t, 200, "PUT", "/v1/files/a", "any bytes", "text/plain")
			d.check(t, 200, "PATCH", "/admin/x", `{"view":"all"}`, "application/json")
			d.check(t, 401, "GET", "/v1/echo", "", "", "Authorization", "Bearer acme.wrong")
			if tt.name == "envelope" {
				d.check(t, 200, "PUT", "/v1/echo/words", "name=s&size=3&inner.colour=RED", "application/x-www-form-urlencoded")
			}
		})
	}
}

// Routes of an unhappy backend: its error, with details, is what the document
// says errors are.
func TestOpenAPIDescribesErrors(t *testing.T) {
	t.Parallel()
	r := newShopRig(t, "")
	d := describe(t, r)
	d.check(t, 404, "GET", "/v1/users/999999", "", "")
	d.check(t, 200, "POST", "/v1/users", `{"name":"Ada"}`, "application/json")
}

// Methods without a route over HTTP are described as Connect has them.
func TestOpenAPIDescribesConnect(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	r := newRig(t, fmt.Sprintf("backends: [{name: echo, endpoints: [%q], reflection: true, annotations: false}]\n", b.Addr))
	d := describe(t, r)
	d.check(t, 200, "POST", "/testbackend.Echo/Unary", `{"text":"a","number":"12"}`, "application/json")
	d.check(t, 401, "POST", "/testbackend.Echo/Unary", `{}`, "application/json", "Authorization", "Bearer acme.wrong")
	if d.doc.Paths.Value("/testbackend.Echo/Bidi") != nil {
		t.Error("a stream of Connect is described")
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	t.Run("on the admin port alone", func(t *testing.T) {
		t.Parallel()
		r, _ := newEchoRig(t, "", "")
		for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs/", "/docs"} {
			r.do(t, r.http1, "GET", path, "").failed(t, 404, codes.NotFound, "NO_ROUTE")
		}
		if page := r.AdminGet("/docs/"); !strings.Contains(page, "swagger-ui-bundle.js") {
			t.Error(page)
		}
		var fromYAML struct{ Openapi string }
		if err := yaml.Unmarshal([]byte(r.AdminGet("/openapi.yaml")), &fromYAML); err != nil || fromYAML.Openapi != "3.1.0" {
			t.Errorf("%+v, %v", fromYAML, err)
		}
	})
	t.Run("at the edge by choice", func(t *testing.T) {
		t.Parallel()
		r, _ := newEchoRig(t, "", "http: {address: \"127.0.0.1:0\", openapi: true}\nroutes: [{method: testbackend.Echo/Unary, http: {get: /openapi.yaml, additional_bindings: [{post: /docs/init.js}]}}]\n")
		for _, client := range []*http.Client{r.http1, r.http2} {
			a := r.do(t, client, "GET", "/openapi.json", "")
			var doc struct {
				Servers []struct{ URL string }
				Paths   map[string]any
			}
			if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || a.Status != 200 || len(doc.Servers) != 1 || doc.Servers[0].URL != "/" || doc.Paths["/v1/echo"] == nil {
				t.Errorf("%d, %v, %v", a.Status, err, doc.Servers)
			}
			wantHeader(t, a.Header, "Content-Type", "application/json")
			if again := r.do(t, client, "GET", "/openapi.json", "", "If-None-Match", a.Header.Get("ETag")); again.Status != 304 || again.Body != "" {
				t.Errorf("who has it gets %d", again.Status)
			}
			head := r.do(t, client, "HEAD", "/openapi.json", "")
			if head.Status != 200 || head.Body != "" || head.Header.Get("ETag") != a.Header.Get("ETag") {
				t.Errorf("HEAD: %d %q", head.Status, head.Body)
			}
			if css := r.do(t, client, "GET", "/docs/swagger-ui.css", ""); css.Status != 200 {
				t.Errorf("the page's style: %d", css.Status)
			}
			r.do(t, client, "POST", "/openapi.json", "").failed(t, 404, codes.NotFound, "NO_ROUTE")
			// A route goes before, and so do its other HTTP methods.
			r.do(t, client, "GET", "/openapi.yaml", "", "Authorization", r.bearer()).ok(t, "")
			r.do(t, client, "GET", "/docs/init.js", "").failed(t, 405, codes.Unimplemented, "METHOD_NOT_ALLOWED")
		}
	})
}

// What comes by reflection later is in the next document; the same routes give
// the same one.
func TestOpenAPIIsLive(t *testing.T) {
	t.Parallel()
	b := testbackend.Start(t)
	addr := gatewaytest.FreeAddress(t)
	r := newRig(t, echoConfig(b, "")+fmt.Sprintf("  - {name: shop, endpoints: [%q], reflection: true}\n", addr))
	before := r.AdminGet("/openapi.json")
	if strings.Contains(before, "/v1/users") || !strings.Contains(before, "/v1/echo") || before != r.AdminGet("/openapi.json") {
		t.Error(before)
	}
	gatewaytest.StartShop(t, addr)
	gatewaytest.Eventually(t, func() error {
		for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
			if doc := r.AdminGet(path); !strings.Contains(doc, "/v1/users") || !strings.Contains(doc, "/v1/echo") {
				return fmt.Errorf("%s: %s", path, doc)
			}
		}
		return nil
	})
}

package gateway

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/routes"
)

func TestRequestRules(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Cookie": {"a=1", "b=2"}, "Accept-Language": {"en"}, "User-Agent": {"curl/8"},
		"X-Tenant": {"blue"}, "X-Debug-Level": {"9"}, "X-Raw-Bin": {"AQI,AP8="},
		"Authorization": {"Bearer a.b"}, "X-Token": {"b"}, "X-Forwarded-Proto": {"https"}, "Sec-Websocket-Protocol": {"rpcgate.token.x"},
		"Content-Length": {"3"}, "Te": {"trailers"}, "Grpcgateway-Cookie": {"forged"},
		"Grpc-Metadata-Colour": {"red", "green"}, "Grpc-Metadata-X-Tenant": {"green"}, "Grpc-Metadata-Token": {"stolen"},
		"Connection": {"close, X-Hop"}, "X-Hop": {"1"},
	}
	plain := metadata.MD{
		"grpcgateway-cookie": {"a=1", "b=2"}, "grpcgateway-accept-language": {"en"}, "grpcgateway-user-agent": {"curl/8"},
		"colour": {"red", "green"}, "x-tenant": {"green"},
	}
	with := func(change func(metadata.MD)) metadata.MD {
		md := maps.Clone(plain)
		change(md)
		return md
	}
	for name, tc := range map[string]struct {
		rules []config.HeaderRules
		want  metadata.MD
	}{
		"none":  {nil, plain},
		"allow": {[]config.HeaderRules{{Allow: []string{"x-debug-*"}}}, with(func(md metadata.MD) { md["x-debug-level"] = []string{"9"} })},
		"a cookie": {[]config.HeaderRules{{Allow: []string{"Cookie"}}}, with(func(md metadata.MD) {
			delete(md, "grpcgateway-cookie")
			md["cookie"] = []string{"a=1", "b=2"}
		})},
		"all": {[]config.HeaderRules{{Allow: []string{"*"}}}, metadata.MD{
			"cookie": {"a=1", "b=2"}, "accept-language": {"en"}, "grpcgateway-user-agent": {"curl/8"}, "colour": {"red", "green"},
			"x-tenant": {"green", "blue"}, "x-debug-level": {"9"}, "x-raw-bin": {"\x01\x02", "\x00\xff"},
		}},
		"deny": {[]config.HeaderRules{{Deny: []string{"COOKIE", "grpcgateway-user-*", "colour"}}}, metadata.MD{
			"grpcgateway-accept-language": {"en"}, "x-tenant": {"green"},
		}},
		"rename": {[]config.HeaderRules{{Rename: map[string]string{"X-Tenant": "Org", "grpcgateway-user-agent": "agent"}}}, with(func(md metadata.MD) {
			delete(md, "x-tenant")
			delete(md, "grpcgateway-user-agent")
			md["org"], md["agent"] = []string{"green", "blue"}, []string{"curl/8"}
		})},
		"set": {[]config.HeaderRules{{Set: map[string]string{"Colour": "none", "via": "rpcgate"}}}, with(func(md metadata.MD) {
			md["colour"], md["via"] = []string{"none"}, []string{"rpcgate"}
		})},
		"the route wins": {
			[]config.HeaderRules{
				{Deny: []string{"*"}, Set: map[string]string{"a": "1", "b": "1", "c": "1"}},
				{Allow: []string{"X-Tenant"}, Deny: []string{"a"}, Rename: map[string]string{"b": "d"}, Set: map[string]string{"c": "2"}},
			},
			metadata.MD{"x-tenant": {"green", "blue"}, "d": {"1"}, "c": {"2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://shop.example/v1", nil)
			r.Header = header.Clone()
			got, err := metadataFromHTTP(r, nil, compileRules(tc.rules), "id", "10.0.0.1", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{keyRequestID, keyForwardedFor, keyForwardedHost} {
				delete(got, own)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %v\nwant %v", got, tc.want)
			}
		})
	}
}

// What a rule lets through is checked as what callers name themselves is.
func TestRequestRulesRefuseWhatGRPCDoes(t *testing.T) {
	t.Parallel()
	rules := compileRules([]config.HeaderRules{{Allow: []string{"*"}}})
	for header, value := range map[string]string{"X-City": "Zürich", "X-Raw-Bin": "!", "X~Tilde": "x"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = http.Header{header: {value}}
		if got, err := metadataFromHTTP(r, nil, rules, "id", "10.0.0.1", ""); err == nil {
			t.Errorf("%s: %q became %v", header, value, got)
		}
	}
}

func TestMetadataFromRPC(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Content-Type": {"application/proto"}, "Content-Length": {"5"}, "Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"9"},
		"Grpc-Timeout": {"1S"}, "Grpc-Metadata-Colour": {"red"}, "Te": {"trailers"}, "User-Agent": {"x"}, "X-User-Agent": {"x"}, "X-Grpc-Web": {"1"},
		"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "Origin": {"https://a.example"}, "Referer": {"https://a.example/ü"}, "Cookie": {"a=1"},
		"Sec-Fetch-Mode": {"cors"}, "Authorization": {"Bearer a.b"}, "App": {"a"}, "X-App": {"a"}, "Token": {"b"},
		"X-Custom": {"one", "two, three"}, "Raw-Bin": {"AQI,AP8=", "Aw"}, "Traceparent": {"00-1-2-01"}, "X-Request-Id": {"forged"},
		"Grpcgateway-Cookie": {"forged"}, "Connection": {"keep-alive, X-Hop"}, "X-Hop": {"1"},
	}
	want := metadata.MD{
		"x-custom": {"one", "two, three"}, "raw-bin": {"\x01\x02", "\x00\xff", "\x03"}, "traceparent": {"00-1-2-01"},
		"x-request-id": {"id"}, "x-forwarded-for": {"10.0.0.1"}, "x-forwarded-host": {"shop.example"},
	}
	read := func(proto protocol, rules *ruleList) metadata.MD {
		r := httptest.NewRequest(http.MethodPost, "http://shop.example/a.B/C", nil)
		r.Header = header.Clone()
		md, err := metadataFromRPC(r, proto, nil, rules, "id", "10.0.0.1", "")
		if err != nil {
			t.Fatal(err)
		}
		return md
	}
	for _, proto := range []protocol{protocolConnect, protocolGRPCWeb} {
		if got := read(proto, nil); !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n got %v\nwant %v", proto, got, want)
		}
	}
	allowed := maps.Clone(want)
	allowed["cookie"] = []string{"a=1"}
	if got := read(protocolConnect, compileRules([]config.HeaderRules{{Allow: []string{"cookie", "x-custom"}}})); !reflect.DeepEqual(got, allowed) {
		t.Errorf("with a rule\n got %v\nwant %v", got, allowed)
	}

	// Of a gRPC caller nothing is a browser's own.
	delete(header, "Referer") // which is not ASCII
	native := maps.Clone(allowed)
	maps.Copy(native, metadata.MD{
		"accept": {"*/*"}, "accept-encoding": {"gzip"}, "origin": {"https://a.example"}, "sec-fetch-mode": {"cors"},
		"x-user-agent": {"x"}, "x-grpc-web": {"1"},
	})
	if got := read(protocolGRPC, nil); !reflect.DeepEqual(got, native) {
		t.Errorf("grpc\n got %v\nwant %v", got, native)
	}
	for name, bad := range map[string]string{"X-City": "Zürich", "Raw-Bin": "!", "X~Tilde": "x"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header = http.Header{name: {bad}}
		if got, err := metadataFromRPC(r, protocolConnect, nil, nil, "id", "10.0.0.1", ""); err == nil {
			t.Errorf("%s: %q became %v", name, bad, got)
		}
	}
}

// What a route's policies look at, of its own backend or of the one that stands
// in for it, JSON callers send under its own name.
func TestPoliciesSeeTheirHeaders(t *testing.T) {
	t.Parallel()
	spare := config.DefaultBackend("spare")
	spare.Canary = []config.Canary{{Header: "x-beta"}, {Header: "x-canary"}}
	spare.Balancer.Policy, spare.Balancer.HashHeader = "ring_hash", "x-cart"
	r := &routes.Route{IdempotencyKey: true, HashHeader: "x-user", Canary: []config.Canary{{Header: "x-canary"}, {}}}
	header := http.Header{"Idempotency-Key": {"1"}, "X-User": {"2"}, "X-Canary": {"3"}, "X-Beta": {"4"}, "X-Cart": {"5"}, "X-Other": {"6"}}
	for _, tc := range []struct {
		spare *config.Backend
		want  metadata.MD
	}{
		{nil, metadata.MD{"idempotency-key": {"1"}, "x-user": {"2"}, "x-canary": {"3"}}},
		{&spare, metadata.MD{"idempotency-key": {"1"}, "x-user": {"2"}, "x-canary": {"3"}, "x-beta": {"4"}, "x-cart": {"5"}}},
	} {
		md, err := metadataFromHTTP(&http.Request{Header: header}, nil, rulesOf(r, tc.spare).forRequest(), "", "", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range []string{keyRequestID, keyForwardedFor, keyForwardedHost} {
			delete(md, own)
		}
		if !reflect.DeepEqual(md, tc.want) {
			t.Errorf("got  %v\nwant %v", md, tc.want)
		}
	}
}

func TestResponseRules(t *testing.T) {
	t.Parallel()
	call := &Call{rules: rulesOf(&routes.Route{ResponseHeaders: []config.HeaderRules{
		{Allow: []string{"Set-Cookie", "ETag", "x-raw-bin"}, Deny: []string{"x-debug-*"}},
		{Rename: map[string]string{"x-version": "API-Version"}, Set: map[string]string{"X-Content-Type-Options": "nosniff", "x-colour": "none"}},
	}}, nil)}
	p := &recordingPeer{}
	call.peer = p
	_ = call.SendHeader(metadata.MD{
		"set-cookie": {"a=1", "b=2"}, "etag": {`"x"`}, "x-debug-a": {"1"}, "x-version": {"7"}, "x-colour": {"red"}, "other": {"o"},
		"x-raw-bin": {"\x00\xff"}, "content-type": {"application/grpc"}, "city": {"Zürich"},
	})
	call.SetTrailer(metadata.MD{"x-debug-b": {"1"}, "x-colour": {"red"}, "etag": {`"y"`}, "mood": {"good"}})
	h := http.Header{}
	addMetadata(h, metadataPrefix, p.header, call.rules.forResponse())
	addMetadata(h, http.TrailerPrefix+trailerPrefix, p.trailer, call.rules.forResponse())
	want := http.Header{
		"Set-Cookie": {"a=1", "b=2"}, "Etag": {`"x"`}, "Api-Version": {"7"}, "X-Content-Type-Options": {"nosniff"}, "X-Colour": {"none"},
		"X-Raw-Bin": {"AP8="}, "Grpc-Metadata-Other": {"o"}, "Trailer:etag": {`"y"`}, "Trailer:Grpc-Trailer-mood": {"good"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got  %v\nwant %v", h, want)
	}
	// For other protocols it is the same keys, under no prefix.
	if got := p.header["api-version"]; len(got) != 1 || p.header["x-version"] != nil {
		t.Errorf("the header is %v", p.header)
	}
}

// recordingPeer keeps what comes back.
type recordingPeer struct {
	peer
	header, trailer metadata.MD
}

func (p *recordingPeer) sendHeader(md metadata.MD) error {
	p.header = md
	return nil
}

func (p *recordingPeer) setTrailer(md metadata.MD) { p.trailer = md }

func TestRoutesWithoutRulesHaveNone(t *testing.T) { // alone, for it counts allocations
	if rules := rulesOf(&routes.Route{RequestHeaders: []config.HeaderRules{{}}}, nil); rules != nil {
		t.Errorf("compiled %+v", rules)
	}
	md := metadata.MD{"a": {"b"}}
	if allocs := testing.AllocsPerRun(100, func() {
		var none *headerRules
		none.forResponse().applySet(none.forResponse().apply(md))
	}); allocs != 0 {
		t.Errorf("a route without rules costs %v allocations", allocs)
	}
}

// slowRules says what becomes of each entry the long way: rule by rule, in the
// order of the configuration.
func slowRules(all []config.HeaderRules, name, key string) string {
	set := map[string]bool{}
	matches := func(list []string, name string) bool {
		return !config.ReservedHeader(name) && slices.ContainsFunc(list, func(pattern string) bool {
			prefix, open := strings.CutSuffix(strings.ToLower(pattern), "*")
			return name == prefix || open && strings.HasPrefix(name, prefix)
		})
	}
	for _, rules := range all {
		if matches(rules.Allow, name) {
			key = name
		}
		if matches(rules.Deny, name) || matches(rules.Deny, key) {
			key = ""
		} else {
			for _, k := range []string{key, name} { // by its name in the end
				for from, to := range rules.Rename {
					if strings.EqualFold(from, k) && k != "" {
						key = strings.ToLower(to)
					}
				}
			}
		}
		kept := map[string]bool{}
		for k := range set {
			if matches(rules.Deny, k) {
				continue
			}
			for from, to := range rules.Rename {
				if strings.EqualFold(from, k) {
					k = strings.ToLower(to)
					break
				}
			}
			kept[k] = true
		}
		set = kept
		for k := range rules.Set {
			set[strings.ToLower(k)] = true
		}
	}
	if set[key] {
		return ""
	}
	return key
}

// Compiled rules do what they say one by one; and whatever they say, what is
// reserved neither comes through nor is replaced.
func FuzzHeaderRules(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	names := []string{"a", "ab", "abc", "b", "B", "x-raw-bin", "y-bin", "cookie", "Cookie", "grpcgateway-cookie", "grpcgateway-accept", "X-Tenant", "traceparent"}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		name := func() string { return names[rnd.IntN(len(names))] }
		pattern := func() string {
			text := name()
			if rnd.IntN(3) == 0 {
				text = text[:rnd.IntN(len(text)+1)] + "*"
			}
			return text
		}
		var all []config.HeaderRules
		for range rnd.IntN(4) {
			var rules config.HeaderRules
			for range rnd.IntN(3) {
				rules.Allow = append(rules.Allow, pattern())
			}
			for range rnd.IntN(3) {
				rules.Deny = append(rules.Deny, pattern())
			}
			from, to := name(), name()
			if rnd.IntN(2) == 0 && !strings.EqualFold(from, to) && strings.HasSuffix(from, "-bin") == strings.HasSuffix(to, "-bin") {
				rules.Rename = map[string]string{from: to}
			}
			if to := name(); rnd.IntN(2) == 0 && !strings.HasSuffix(to, "-bin") {
				rules.Set = map[string]string{to: "set"}
			}
			all = append(all, rules)
		}
		l := compileRules(all)
		h := http.Header{
			"Authorization": {"secret"}, "X-Token": {"secret"}, "Proxy-Authorization": {"secret"}, "Content-Length": {"secret"},
			"Grpc-Timeout": {"secret"}, "Sec-Websocket-Protocol": {"secret"}, "Connection": {"Hop"}, "Hop": {"secret"}, "Upgrade": {"secret"},
			"Grpc-Metadata-Token": {"secret"}, "Grpc-Metadata-Authorization": {"secret"}, "X-Forwarded-For": {"secret"},
		}
		for _, n := range names {
			value := "AQI"
			h[http.CanonicalHeaderKey(n)] = []string{value}
		}
		r := httptest.NewRequest(http.MethodGet, "http://shop.example/", nil)
		r.Header = h
		for range 2 { // the order of maps does not show
			md, err := metadataFromHTTP(r, nil, l, "id", "10.0.0.1", "")
			if err != nil {
				t.Fatal(err)
			}
			checkMetadata(t, md)
		}
		if l == nil {
			return
		}
		for _, n := range names {
			n = strings.ToLower(n)
			for _, key := range []string{n, "", "grpcgateway-" + n} {
				if got, want := l.key(n, key), slowRules(all, n, key); got != want {
					t.Errorf("%+v\n%s as %q becomes %q, want %q", all, n, key, got, want)
				}
			}
		}
		md := l.applySet(l.apply(metadata.MD{"content-type": {"application/grpc"}, "grpc-status": {"0"}, "a": {"1"}, "cookie": {"2"}}))
		if got := md["content-type"]; len(got) != 1 || got[0] != "application/grpc" || md["grpc-status"] == nil {
			t.Errorf("%+v change what is reserved: %v", all, md)
		}
	})
}

// checkMetadata checks what holds of all that goes to a backend.
func checkMetadata(t *testing.T, md metadata.MD) {
	t.Helper()
	for key, values := range md {
		if !validKey(key) {
			t.Errorf("the key %q is not valid", key)
		}
		for _, v := range values {
			if strings.Contains(v, "secret") {
				t.Errorf("%s has a secret: %v", key, values)
			}
			if !strings.HasSuffix(key, "-bin") && !validValue(v) {
				t.Errorf("%s has the value %q", key, v)
			}
		}
		if config.ReservedHeader(key) && key != keyRequestID && key != keyForwardedFor && key != keyForwardedHost {
			t.Errorf("%s is reserved", key)
		}
	}
}

package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

// standInConsul speaks Consul's HTTP API as its documentation has it: an index
// that grows with each change, queries that wait for one above theirs, for at
// most the time they give (and a sixteenth), filters by tag and checks, ACLs.
type standInConsul struct {
	*httptest.Server

	mu        sync.Mutex
	index     uint64
	instances map[string]*consulEntry // by id
	changed   chan struct{}
	token     string // what is wanted; empty: none
	fault     int    // the status of each answer; 0: none
	stuck     bool   // answers nothing
	queries   []string
	waiting   int
}

type consulEntry struct {
	consulInstance
	service string
	passing bool
}

func startConsul(t *testing.T, start func(http.Handler) *httptest.Server) *standInConsul {
	t.Helper()
	c := &standInConsul{index: 10, instances: map[string]*consulEntry{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/health/service/{service}", c.health)
	c.Server = start(mux)
	t.Cleanup(c.Close)
	return c
}

func (c *standInConsul) health(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queries = append(c.queries, r.URL.RawQuery)
	if c.token != "" && r.Header.Get("X-Consul-Token") != c.token {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "rpc error making call: Permission denied: token %s lacks permission", r.Header.Get("X-Consul-Token"))
		return
	}
	index, _ := strconv.ParseUint(query.Get("index"), 10, 64)
	wait, _ := time.ParseDuration(query.Get("wait"))
	limit := time.NewTimer(wait + wait/16)
	defer limit.Stop()
	for timeUp := false; c.stuck || c.fault == 0 && index > 0 && c.index <= index && !timeUp; {
		changed := c.changed
		c.waiting++
		c.mu.Unlock()
		select {
		case <-changed:
		case <-limit.C:
			timeUp = true
		case <-r.Context().Done():
			timeUp = true
		}
		c.mu.Lock()
		c.waiting--
		if r.Context().Err() != nil {
			return
		}
	}
	if c.fault != 0 {
		http.Error(w, "No cluster leader", c.fault)
		return
	}
	found := []consulInstance{}
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		e := c.instances[id]
		tagged := query.Get("tag") == "" || slices.Contains(e.Service.Tags, query.Get("tag"))
		if e.service == r.PathValue("service") && tagged && (e.passing || !query.Has("passing")) {
			found = append(found, e.consulInstance)
		}
	}
	w.Header().Set("X-Consul-Index", strconv.FormatUint(c.index, 10))
	_ = json.NewEncoder(w).Encode(found)
}

// change makes one change, as one transaction.
func (c *standInConsul) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.index++
	close(c.changed)
	c.changed = make(chan struct{})
}

// put registers, or changes, an instance of the service "shop".
func (c *standInConsul) put(id, address string, port int, more func(*consulEntry)) {
	e := &consulEntry{service: "shop", passing: true}
	e.Service.ID, e.Service.Address, e.Service.Port = id, address, port
	e.Node.Node, e.Node.Address = "node-1", "10.9.9.9"
	e.Service.Weights.Passing = 1
	if more != nil {
		more(e)
	}
	c.change(func() { c.instances[id] = e })
}

func (c *standInConsul) remove(ids ...string) {
	c.change(func() {
		for _, id := range ids {
			delete(c.instances, id)
		}
	})
}

func (c *standInConsul) asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.queries)
}

func quickPace() pace {
	return pace{grace: time.Second, minBackoff: 10 * time.Millisecond, maxBackoff: 50 * time.Millisecond}
}

func consulResolver(t *testing.T, c *standInConsul, cfg config.Consul, log *slog.Logger) *Consul {
	t.Helper()
	cfg.Address = c.Listener.Addr().String()
	consul, err := NewConsul(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	consul.pace = quickPace()
	t.Cleanup(consul.Close)
	return consul
}

func resolveConsul(t *testing.T, consul *Consul, backend config.BackendConsul) *fakeConn {
	t.Helper()
	cc, r := resolve(t, consul.Builder(), ConsulTarget(backend))
	t.Cleanup(r.Close)
	return cc
}

var quietLog = slog.New(slog.DiscardHandler)

func TestConsulFollowsChanges(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, nil)
	c.put("2", "", 81, nil)
	c.put("bad", "10.0.0.7", 0, nil)
	c.put("other", "10.0.0.8", 80, func(e *consulEntry) { e.service = "shop2" })
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{}, quietLog), config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80 10.9.9.9:81")
	c.put("3", "10.0.0.3", 80, nil)
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.3:80 10.9.9.9:81")
	c.put("3", "10.0.0.3", 80, func(e *consulEntry) { e.passing = false })
	eventuallyTold(t, cc, "10.0.0.1:80 10.9.9.9:81")
	c.remove("2")
	eventuallyTold(t, cc, "10.0.0.1:80")
	for i, query := range c.asked() {
		if blocks := strings.Contains(query, "index="); blocks != (i > 0) || blocks != strings.Contains(query, "wait=") {
			t.Errorf("query %d is %q", i, query)
		}
	}
}

func TestConsulWaitsForNews(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, nil)
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{WaitTime: 500 * time.Millisecond}, quietLog), config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	// A query whose time is up is followed by the next one.
	eventually(t, "a few queries have waited", func() bool { return len(c.asked()) > 3 })
	c.put("2", "10.0.0.2", 80, nil)
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	if n := len(cc.told); n != 2 {
		t.Errorf("the ClientConn was told %d times of two lists", n)
	}
}

func TestConsulIndexThatGoesBack(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, nil)
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{WaitTime: time.Second}, quietLog), config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	c.change(func() { c.index = 1 }) // a snapshot was restored
	c.put("2", "10.0.0.2", 80, nil)
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	c.put("3", "10.0.0.3", 80, nil)
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
}

func TestConsulIndex(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ last, next, want uint64 }{
		{0, 10, 10}, {10, 10, 10}, {10, 11, 11}, {10, 9, 0}, {10, 0, 0}, {0, 0, 1},
	} {
		if got := nextIndex(tc.last, tc.next); got != tc.want {
			t.Errorf("after %d, %d: %d, want %d", tc.last, tc.next, got, tc.want)
		}
	}
}

// A Consul that is away, has no leader, or answers with something else, takes
// nothing from what is known, and is not asked without pause.
func TestConsulFaultsKeepTheEndpoints(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, nil)
	consul := consulResolver(t, c, config.Consul{}, quietLog)
	cc := resolveConsul(t, consul, config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusNotFound, http.StatusMovedPermanently} {
		c.change(func() { c.fault = status })
		before, began := len(c.asked()), time.Now()
		eventually(t, "it is asked in vain", func() bool { return len(c.asked()) > before+5 })
		if most := int(time.Since(began)/(8*time.Millisecond)) + 6; len(c.asked())-before > most {
			t.Errorf("%d queries with a pause of 10ms at least in %v", len(c.asked())-before, time.Since(began))
		}
		if got := cc.last(); got != "10.0.0.1:80" {
			t.Errorf("with %d: %q", status, got)
		}
	}
	late := resolveConsul(t, consul, config.BackendConsul{Service: "shop"})
	eventually(t, "the fault is reported", func() bool {
		return strings.HasPrefix(late.last(), "error: looking for endpoints of Consul service shop: consul: answered 301")
	})
	c.change(func() { c.fault = 0; delete(c.instances, "1") })
	c.put("2", "10.0.0.2", 80, nil)
	eventuallyTold(t, cc, "10.0.0.2:80")
	eventuallyTold(t, late, "10.0.0.2:80")
}

func TestConsulEmptyListIsBelievedAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, nil)
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{}, quietLog), config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	removed := time.Now()
	c.remove("1")
	eventuallyTold(t, cc, "error: no endpoints of Consul service shop")
	if held := time.Since(removed); held < quickPace().grace {
		t.Errorf("held for %v", held)
	}
	c.put("1", "10.0.0.1", 80, nil)
	eventuallyTold(t, cc, "10.0.0.1:80")
}

func TestConsulTagAndDatacenter(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.put("1", "10.0.0.1", 80, func(e *consulEntry) { e.Service.Tags = []string{"grpc"} })
	c.put("2", "10.0.0.2", 80, nil)
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{Datacenter: "dc 2"}, quietLog), config.BackendConsul{Service: "shop", Tag: "grpc"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	if q := c.asked()[0]; q != "dc=dc+2&passing=true&tag=grpc" {
		t.Errorf("asked %q", q)
	}
}

// The token goes to Consul, over TLS if so configured, and nowhere else: not
// even where an answer repeats it.
func TestConsulTokenAndTLS(t *testing.T) {
	t.Parallel()
	const token = "b1gs33cr3t"
	c := startConsul(t, startTLS)
	c.change(func() { c.token = token })
	c.put("1", "10.0.0.1", 80, nil)
	tls := &config.ClientTLS{CAFile: caFile(t, c.Server), ServerName: "example.com"}
	var logged lockedBuffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	cc := resolveConsul(t, consulResolver(t, c, config.Consul{TLS: tls, Token: token}, log), config.BackendConsul{Service: "shop"})
	eventuallyTold(t, cc, "10.0.0.1:80")
	c.change(func() { c.token = "another one" })
	wrong := resolveConsul(t, consulResolver(t, c, config.Consul{TLS: tls, Token: token}, log), config.BackendConsul{Service: "shop"})
	eventually(t, "the refusal is reported", func() bool { return strings.Contains(wrong.last(), "answered 403") })
	if text := wrong.last() + logged.String(); strings.Contains(text, token) || !strings.Contains(text, "token [redacted] lacks") {
		t.Errorf("told and logged: %s", text)
	}
	untrusted := resolveConsul(t, consulResolver(t, c, config.Consul{TLS: &config.ClientTLS{}, Token: token}, log), config.BackendConsul{Service: "shop"})
	eventually(t, "the certificate is refused", func() bool { return strings.Contains(untrusted.last(), "certificate") })
}

// An agent that hangs is found out when the query's time is up.
func TestConsulThatHangs(t *testing.T) {
	t.Parallel()
	c := startConsul(t, httptest.NewServer)
	c.change(func() { c.stuck = true })
	api, err := newHTTPAPI(mustParse(t, c.URL), nil, func(http.Header) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	answer, err := api.get(t.Context(), "/v1/health/service/shop", nil, 50*time.Millisecond)
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil || err.Error() != "no answer within 50ms" {
		t.Errorf("error %v", err)
	}
}

func TestConsulLabels(t *testing.T) {
	t.Parallel()
	var i consulInstance
	if err := json.Unmarshal([]byte(`{
		"Node": {"Node": "n1", "Address": "10.1.1.1", "Datacenter": "dc1", "Locality": {"Region": "eu", "Zone": "eu-1"}},
		"Service": {"ID": "shop-1", "Service": "shop", "Address": "10.0.0.1", "Port": 80, "Tags": ["grpc", "version=v2", "zone=tag", "=x"],
			"Meta": {"zone": "eu-2", "canary": ""}, "Weights": {"Passing": 7, "Warning": 1}},
		"Checks": []}`), &i); err != nil {
		t.Fatal(err)
	}
	e, err := i.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"id": "shop-1", "node": "n1", "datacenter": "dc1", "region": "eu", "zone": "eu-2", "weight": "7",
		"grpc": "true", "version": "v2", "canary": "",
	}
	if got := Labels(stateOf([]endpoint{e}).Endpoints[0]); !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
}

func FuzzConsulAnswer(f *testing.F) {
	f.Add([]byte(`[{"Node":{"Address":"10.0.0.1"},"Service":{"Port":80,"Meta":null,"Tags":null}}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &consulSource{Consul: &Consul{log: quietLog}, service: "shop"}
		endpoints, err := s.read(bytes.NewReader(body))
		if err != nil {
			return
		}
		for i, e := range endpoints {
			if err := checkAddress(e.address); err != nil {
				t.Error(err)
			}
			if i > 0 && endpoints[i-1].address >= e.address {
				t.Errorf("%q is not sorted", endpoints)
			}
			Labels(stateOf(endpoints).Endpoints[i])
		}
	})
}

func TestConsulTarget(t *testing.T) {
	t.Parallel()
	consul, err := NewConsul(config.Consul{Address: "127.0.0.1:1"}, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	for cfg, want := range map[config.BackendConsul]string{
		{Service: "shop"}:             "consul:///shop",
		{Service: "a b", Tag: "x=y&"}: "consul:///a%20b?tag=x%3Dy%26",
	} {
		if got := ConsulTarget(cfg); got != want {
			t.Errorf("the target of %v is %q", cfg, got)
		}
	}
	for _, target := range []string{"consul:///", "consul:///a/b"} {
		if _, err := consul.Builder().Build(parseTarget(t, target), new(fakeConn), resolver.BuildOptions{}); err == nil {
			t.Errorf("%s: no error", target)
		}
	}
	if _, err := NewConsul(config.Consul{}, quietLog); err == nil {
		t.Error("no error without an address")
	}
}

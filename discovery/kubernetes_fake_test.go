package discovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// standInKubernetes is an API server of EndpointSlices alone: lists in pages,
// watches from a version, 410 for versions that were compacted away, bookmarks,
// bearer tokens, over TLS.
type standInKubernetes struct {
	*httptest.Server
	account string // the folder of a pod's service account

	mu        sync.Mutex
	version   int
	compacted int
	slices    map[string]json.RawMessage
	history   []sliceChange
	watches   map[chan struct{}]bool // closed to end one
	changed   chan struct{}
	token     string
	fault     int    // the status of each answer
	lateGone  bool   // 410 comes as an event, and not as the answer
	ending    string // what a watch that is ended says last
	lists     int
	watched   []string // the queries of watches
}

type sliceChange struct {
	version int
	name    string
	event   []byte
}

func startKubernetes(t *testing.T) *standInKubernetes {
	t.Helper()
	k := &standInKubernetes{
		account: t.TempDir(), version: 100, slices: map[string]json.RawMessage{},
		watches: map[chan struct{}]bool{}, changed: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", k.serve)
	k.Server = startTLS(mux)
	t.Cleanup(k.Close)
	k.setToken(t, "t0ken-1")
	k.file(t, "namespace", "apps")
	if err := os.Rename(caFile(t, k.Server), filepath.Join(k.account, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *standInKubernetes) file(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(k.account, name), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// setToken replaces the service account's token, and has the old one refused.
func (k *standInKubernetes) setToken(t *testing.T, token string) {
	t.Helper()
	k.file(t, "token", token)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = token
}

// resolver is that of a pod of the cluster.
func (k *standInKubernetes) resolver(t *testing.T) *Kubernetes {
	t.Helper()
	host, port, _ := strings.Cut(k.Listener.Addr().String(), ":")
	p := pod{serviceAccount: k.account, getenv: func(key string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[key]
	}}
	kubernetes, err := p.newKubernetes(config.Kubernetes{}, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	kubernetes.pace = quickPace()
	t.Cleanup(kubernetes.Close)
	return kubernetes
}

func (k *standInKubernetes) resolve(t *testing.T, backend config.BackendKubernetes) *fakeConn {
	t.Helper()
	cc, r := resolve(t, k.resolver(t).Builder(), KubernetesTarget(backend))
	t.Cleanup(r.Close)
	return cc
}

// put writes a slice of the service "shop"; endpoints are JSON objects.
func (k *standInKubernetes) put(name, more string, endpoints ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	kind := "ADDED"
	if k.slices[name] != nil {
		kind = "MODIFIED"
	}
	if more == "" {
		more = `"addressType": "IPv4", "ports": [{"name": "grpc", "port": 80, "protocol": "TCP"}]`
	}
	k.slices[name] = json.RawMessage(fmt.Sprintf(
		`{"metadata": {"name": %q, "namespace": "apps", "resourceVersion": "%d", "labels": {"kubernetes.io/service-name": "shop", "version": "v1"}}, %s, "endpoints": [%s]}`,
		name, k.version, more, strings.Join(endpoints, ",")))
	k.noteLocked(kind, name)
}

func (k *standInKubernetes) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	k.noteLocked("DELETED", name)
	delete(k.slices, name)
}

func (k *standInKubernetes) noteLocked(kind, name string) {
	event := fmt.Appendf(nil, `{"type": %q, "object": %s}`, kind, k.slices[name])
	if kind == "DELETED" { // has the version of its removal
		event = fmt.Appendf(nil, `{"type": "DELETED", "object": {"metadata": {"name": %q, "resourceVersion": "%d"}, "endpoints": null}}`, name, k.version)
	}
	k.history = append(k.history, sliceChange{k.version, name, event})
	close(k.changed)
	k.changed = make(chan struct{})
}

// bookmark tells the watches how far they have come.
func (k *standInKubernetes) bookmark() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version += 1000 // by changes of others
	k.history = append(k.history, sliceChange{version: k.version, event: fmt.Appendf(nil,
		`{"type": "BOOKMARK", "object": {"kind": "EndpointSlice", "metadata": {"resourceVersion": "%d"}}}`, k.version)})
	close(k.changed)
	k.changed = make(chan struct{})
}

// endWatches ends them all with these words; compact forgets all history, too.
func (k *standInKubernetes) endWatches(words string, compact bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if compact {
		k.version++
		k.compacted = k.version
		k.history = nil
	}
	k.ending = words
	for end := range k.watches {
		close(end)
	}
	clear(k.watches)
}

func (k *standInKubernetes) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *standInKubernetes) counts() (lists, watches, open int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists, len(k.watched), len(k.watches)
}

func (k *standInKubernetes) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.fault != 0:
		http.Error(w, `{"kind": "Status", "message": "etcdserver: request timed out"}`, k.fault)
		return
	case r.Header.Get("Authorization") != "Bearer "+k.token:
		http.Error(w, `{"kind": "Status", "message": "Unauthorized"}`, http.StatusUnauthorized)
		return
	case r.PathValue("namespace") != "apps" || query.Get("labelSelector") != "kubernetes.io/service-name=shop":
		http.Error(w, `{"kind": "Status", "message": "forbidden"}`, http.StatusForbidden)
		return
	}
	if query.Get("watch") == "true" {
		k.watched = append(k.watched, r.URL.RawQuery)
		k.serveWatchLocked(w, r)
		return
	}
	k.lists++
	names := slices.Sorted(maps.Keys(k.slices))
	from, _ := strconv.Atoi(query.Get("continue"))
	const page = 2 // less than the limit asked for, as the API server may
	to := min(from+page, len(names))
	next := ""
	if to < len(names) {
		next = strconv.Itoa(to)
	}
	items := []json.RawMessage{}
	for _, name := range names[from:to] {
		items = append(items, k.slices[name])
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"metadata": map[string]string{"resourceVersion": strconv.Itoa(k.version), "continue": next}, "items": items,
	})
}

const goneEvent = `{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}}`

func (k *standInKubernetes) serveWatchLocked(w http.ResponseWriter, r *http.Request) {
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if version < k.compacted && !k.lateGone {
		http.Error(w, `{"kind": "Status", "code": 410}`, http.StatusGone)
		return
	}
	if version < k.compacted {
		fmt.Fprintln(w, goneEvent)
		return
	}
	end := make(chan struct{})
	k.watches[end] = true
	defer delete(k.watches, end)
	w.WriteHeader(http.StatusOK)
	for {
		for _, change := range k.history {
			if change.version > version {
				fmt.Fprintln(w, string(change.event))
				version = change.version
			}
		}
		_ = http.NewResponseController(w).Flush()
		changed := k.changed
		k.mu.Unlock()
		select {
		case <-changed:
		case <-end:
		case <-r.Context().Done():
		}
		k.mu.Lock()
		select {
		case <-end:
			fmt.Fprint(w, k.ending)
			return
		case <-r.Context().Done():
			return
		default:
		}
	}
}

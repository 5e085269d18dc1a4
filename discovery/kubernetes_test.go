package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/rpcgate/rpcgate/config"
)

func podAt(ip string) string {
	return fmt.Sprintf(`{"addresses": [%q], "conditions": {"ready": true, "serving": true, "terminating": false}, "targetRef": {"kind": "Pod", "name": "pod-%s", "uid": "uid-%s"}}`, ip, ip, ip)
}

var shopInKubernetes = config.BackendKubernetes{Service: "shop"}

func TestKubernetesFollowsChanges(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	for i := range 5 { // three pages
		k.put(fmt.Sprintf("shop-%d", i), "", podAt(fmt.Sprintf("10.0.0.%d", i)))
	}
	cc := k.resolve(t, shopInKubernetes)
	eventuallyTold(t, cc, "10.0.0.0:80 10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 10.0.0.4:80")
	k.put("shop-1", "", podAt("10.0.0.1"), podAt("10.0.0.9"))
	eventuallyTold(t, cc, "10.0.0.0:80 10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 10.0.0.4:80 10.0.0.9:80")
	k.remove("shop-0")
	k.remove("shop-2")
	k.remove("shop-3")
	k.remove("shop-4")
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.9:80")
	// A pod that terminates takes no new calls.
	k.put("shop-1", "", podAt("10.0.0.1"), strings.Replace(strings.Replace(podAt("10.0.0.9"), `"ready": true`, `"ready": false`, 1), `"terminating": false`, `"terminating": true`, 1))
	eventuallyTold(t, cc, "10.0.0.1:80")
	if lists, watches, open := k.counts(); lists != 3 || watches != 1 || open != 1 {
		t.Errorf("%d lists, %d watches, %d of them open; want 3 pages and one watch", lists, watches, open)
	}
}

// A watch that the API server ends goes on from the last version, bookmarks
// included, without a new list.
func TestKubernetesWatchGoesOn(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	k.put("shop-1", "", podAt("10.0.0.1"))
	cc := k.resolve(t, shopInKubernetes)
	eventuallyTold(t, cc, "10.0.0.1:80")
	eventually(t, "it watches", func() bool { _, _, open := k.counts(); return open == 1 })
	k.bookmark()
	k.put("shop-2", "", podAt("10.0.0.2"))
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
	k.bookmark()
	k.put("shop-3", "", podAt("10.0.0.3"))
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80")
	k.endWatches("", false)
	eventually(t, "it watches again", func() bool { _, watches, open := k.counts(); return watches == 2 && open == 1 })
	k.put("shop-4", "", podAt("10.0.0.4"))
	eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 10.0.0.4:80")
	if lists, _, _ := k.counts(); lists != 1 {
		t.Errorf("%d lists, want one", lists)
	}
	k.set(func() {
		for _, query := range k.watched {
			if !strings.Contains(query, "allowWatchBookmarks=true") || !strings.Contains(query, "timeoutSeconds=") {
				t.Errorf("watched with %q", query)
			}
		}
		if !strings.Contains(k.watched[1], fmt.Sprintf("resourceVersion=%d", 100+1+1000+1+1000+1)) {
			t.Errorf("the second watch is from %q", k.watched[1])
		}
	})
}

// What was missed while a version was compacted away is found by a new list; no
// endpoint that has gone meanwhile stays.
func TestKubernetesGone(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"as the answer": false, "as an event": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := startKubernetes(t)
			k.set(func() { k.lateGone = late })
			k.put("shop-1", "", podAt("10.0.0.1"))
			k.put("shop-2", "", podAt("10.0.0.2"))
			cc := k.resolve(t, shopInKubernetes)
			eventuallyTold(t, cc, "10.0.0.1:80 10.0.0.2:80")
			eventually(t, "it watches", func() bool { _, _, open := k.counts(); return open == 1 })
			k.set(func() { // nobody hears of it
				delete(k.slices, "shop-1")
			})
			k.endWatches("", true)
			eventuallyTold(t, cc, "10.0.0.2:80")
			k.endWatches(goneEvent, true) // in the middle of a watch
			k.put("shop-3", "", podAt("10.0.0.3"))
			eventuallyTold(t, cc, "10.0.0.2:80 10.0.0.3:80")
		})
	}
}

func TestKubernetesFaultsKeepTheEndpoints(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	k.put("shop-1", "", podAt("10.0.0.1"))
	cc := k.resolve(t, shopInKubernetes)
	eventuallyTold(t, cc, "10.0.0.1:80")
	eventually(t, "it watches", func() bool { _, _, open := k.counts(); return open == 1 })
	for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusTooManyRequests} {
		k.set(func() { k.fault = status })
		k.endWatches(`{"type": "ADDED", "obj`, false) // torn
		late := k.resolve(t, shopInKubernetes)
		eventually(t, "the fault is reported", func() bool {
			return strings.HasPrefix(late.last(), fmt.Sprintf("error: looking for endpoints of Kubernetes service apps/shop: kubernetes: listing endpoint slices: answered %d", status))
		})
		if got := cc.last(); got != "10.0.0.1:80" {
			t.Errorf("with %d: %q", status, got)
		}
		k.set(func() { k.fault = 0 })
		eventuallyTold(t, late, "10.0.0.1:80")
	}
	k.set(func() { k.fault = http.StatusServiceUnavailable })
	k.endWatches("", false)
	k.put("shop-1", "", podAt("10.0.0.2"))
	k.set(func() { k.fault = 0 })
	eventuallyTold(t, cc, "10.0.0.2:80")
}

// A token that the kubelet replaced is read again.
func TestKubernetesTokenIsReadAgain(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	k.put("shop-1", "", podAt("10.0.0.1"))
	cc := k.resolve(t, shopInKubernetes)
	eventuallyTold(t, cc, "10.0.0.1:80")
	eventually(t, "it watches", func() bool { _, _, open := k.counts(); return open == 1 })
	k.setToken(t, "t0ken-2")
	k.endWatches("", false)
	k.put("shop-1", "", podAt("10.0.0.2"))
	eventuallyTold(t, cc, "10.0.0.2:80")
	k.set(func() { k.token = "of somebody else" })
	late := k.resolve(t, shopInKubernetes)
	eventually(t, "the refusal is reported", func() bool { return strings.Contains(late.last(), "answered 401") })
	if strings.Contains(late.last(), "t0ken") {
		t.Error("the token is in the error")
	}
}

func TestKubernetesNoneReady(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	cc := k.resolve(t, shopInKubernetes)
	eventuallyTold(t, cc, "error: no endpoints of Kubernetes service apps/shop")
	k.put("shop-1", "", podAt("10.0.0.1"))
	eventuallyTold(t, cc, "10.0.0.1:80")
	removed := time.Now()
	k.put("shop-1", "", `{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}`)
	eventuallyTold(t, cc, "error: no endpoints of Kubernetes service apps/shop")
	if held := time.Since(removed); held < quickPace().grace {
		t.Errorf("held for %v", held)
	}
}

func TestEndpointsOfSlices(t *testing.T) {
	t.Parallel()
	const ipv4 = `"addressType": "IPv4", "ports": [{"name": "grpc", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]`
	const twoPorts = `"addressType": "IPv4", "ports": [{"name": "http", "port": 8080}, {"name": "grpc", "port": 80}]`
	for name, tc := range map[string]struct {
		port   string
		slices []string
		want   string
		fault  string
	}{
		"no conditions": {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}]`}, want: "10.0.0.1:80"},
		"not ready":     {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.2"], "conditions": {"ready": true}}]`}, want: "10.0.0.2:80"},
		"published though it terminates": {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "terminating": true}}, {"addresses": ["10.0.0.2"]}]`},
			want: "10.0.0.2:80"},
		"all terminate": {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": true, "terminating": true}}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": false, "terminating": true}}]`},
			want: "10.0.0.1:80"},
		"in two slices":  {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"]}]`, ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.0"]}]`}, want: "10.0.0.0:80 10.0.0.1:80"},
		"both families":  {slices: []string{`"addressType": "IPv6", "ports": [{"port": 80}], "endpoints": [{"addresses": ["fd00::1"], "targetRef": {"uid": "a"}}, {"addresses": ["fd00::2"], "targetRef": {"uid": "b"}}]`, ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {"uid": "a"}}]`}, want: "10.0.0.1:80 [fd00::2]:80"},
		"port by name":   {port: "grpc", slices: []string{twoPorts + `, "endpoints": [{"addresses": ["10.0.0.1"]}]`}, want: "10.0.0.1:80"},
		"port by number": {port: "8080", slices: []string{twoPorts + `, "endpoints": [{"addresses": ["10.0.0.1"]}]`}, want: "10.0.0.1:8080"},
		"which port":     {slices: []string{twoPorts + `, "endpoints": [{"addresses": ["10.0.0.1"]}]`}, fault: "has 2 TCP ports; say which"},
		"no such port":   {port: "dns", slices: []string{ipv4 + `, "endpoints": [{"addresses": ["10.0.0.1"]}]`}, fault: `has no TCP port "dns"`},
		"no ports":       {slices: []string{`"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]`}, fault: "has 0 TCP ports"},
		"no addresses":   {slices: []string{ipv4 + `, "endpoints": [{"addresses": []}, {}]`}},
		"bad address":    {slices: []string{ipv4 + `, "endpoints": [{"addresses": ["a b"]}, {"addresses": ["10.0.0.1"]}]`}, want: "10.0.0.1:80", fault: "in its host"},
		"names":          {slices: []string{`"addressType": "FQDN", "ports": [{"port": 80}], "endpoints": [{"addresses": ["shop.example.com"]}]`}, want: "shop.example.com:80"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := map[string]*endpointSlice{}
			for i, text := range tc.slices {
				s := new(endpointSlice)
				text = fmt.Sprintf(`{"metadata": {"name": "shop-%d"}, %s}`, i, text)
				if err := json.Unmarshal([]byte(text), s); err != nil {
					t.Fatal(err)
				}
				all[s.Metadata.Name] = s
			}
			endpoints, err := endpointsOf(all, tc.port)
			var got []string
			for _, e := range endpoints {
				got = append(got, e.address)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("endpoints %q, want %q", got, tc.want)
			}
			if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("fault %v, want %q", err, tc.fault)
			}
		})
	}
}

func TestKubernetesLabels(t *testing.T) {
	t.Parallel()
	s := new(endpointSlice)
	if err := json.Unmarshal([]byte(`{
		"metadata": {"name": "shop-x", "labels": {"kubernetes.io/service-name": "shop", "version": "v2", "zone": "of the service"}},
		"addressType": "IPv4", "ports": [{"port": 80}],
		"endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "node-1", "zone": "eu-1a", "targetRef": {"name": "shop-abc", "uid": "u"}}]}`), s); err != nil {
		t.Fatal(err)
	}
	endpoints, err := endpointsOf(map[string]*endpointSlice{"x": s}, "")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("%v, %v", endpoints, err)
	}
	want := map[string]string{"version": "v2", "zone": "eu-1a", "node": "node-1", "pod": "shop-abc"}
	if got := Labels(stateOf(endpoints).Endpoints[0]); !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
}

func FuzzKubernetesEvents(f *testing.F) {
	f.Add([]byte(`{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "1"}, "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]}}`))
	f.Add([]byte(goneEvent))
	f.Add([]byte(`{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}} {"type": "DELETED", "object": {"metadata": {"name": "a"}}}`))
	f.Add([]byte(`{"type": "ADDED", "object": null}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		w := &sliceWatch{
			sliceSource: &sliceSource{Kubernetes: &Kubernetes{log: quietLog}}, all: map[string]*endpointSlice{},
			tell: func(list []endpoint) {
				for i, e := range list {
					if err := checkAddress(e.address); err != nil {
						t.Error(err)
					}
					if i > 0 && list[i-1].address >= e.address {
						t.Errorf("%q is not sorted", list)
					}
				}
			},
		}
		for events := json.NewDecoder(bytes.NewReader(stream)); ; {
			var event sliceEvent
			if events.Decode(&event) != nil || w.apply(&event) != nil {
				return
			}
		}
	})
}

func TestKubernetesTargets(t *testing.T) {
	t.Parallel()
	for cfg, want := range map[config.BackendKubernetes]string{
		{Service: "shop"}: "kubernetes:///shop",
		{Service: "shop", Namespace: "apps", Port: "grpc"}: "kubernetes:///apps/shop?port=grpc",
	} {
		if got := KubernetesTarget(cfg); got != want {
			t.Errorf("the target of %v is %q", cfg, got)
		}
	}
	k := startKubernetes(t).resolver(t)
	for target, want := range map[string]string{"kubernetes:///shop": "shop.apps.svc", "kubernetes:///b/shop?port=x": "shop.b.svc"} {
		authority, ok := Share(k.Builder()).(resolver.AuthorityOverrider)
		if !ok || authority.OverrideAuthority(parseTarget(t, target)) != want {
			t.Errorf("the authority of %s is not %s", target, want)
		}
	}
	for _, target := range []string{"kubernetes:///", "kubernetes:///a/", "kubernetes:////a", "kubernetes:///a/b/c"} {
		if _, err := k.Builder().Build(parseTarget(t, target), new(fakeConn), resolver.BuildOptions{}); err == nil {
			t.Errorf("%s: no error", target)
		}
	}
}

func TestKubernetesFromOutside(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	k.put("shop-1", "", podAt("10.0.0.1"))
	outside := pod{serviceAccount: t.TempDir(), getenv: func(string) string { return "" }}
	if _, err := outside.newKubernetes(config.Kubernetes{}, quietLog); err == nil || !strings.Contains(err.Error(), "set kubernetes.address") {
		t.Errorf("outside of a cluster: %v", err)
	}
	kubernetes, err := outside.newKubernetes(config.Kubernetes{
		Address:   k.URL,
		TLS:       &config.ClientTLS{CAFile: k.account + "/ca.crt"},
		TokenFile: k.account + "/token",
	}, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	defer kubernetes.Close()
	cc, r := resolve(t, kubernetes.Builder(), "kubernetes:///apps/shop")
	defer r.Close()
	eventuallyTold(t, cc, "10.0.0.1:80")
	if kubernetes.namespace != "default" {
		t.Errorf("outside of a cluster the namespace is %q", kubernetes.namespace)
	}
}

package discovery

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		layout layout
		value  string
		want   endpoint
		fault  string
	}{
		{layoutAuto, "10.0.0.1:80", endpoint{address: "10.0.0.1:80"}, ""},
		{layoutAuto, " 10.0.0.1:80\n", endpoint{address: "10.0.0.1:80"}, ""},
		{layoutAuto, `{"Op":0,"Addr":"10.0.0.1:80","Metadata":null}`, endpoint{address: "10.0.0.1:80"}, ""},
		{layoutAuto, `{"Addr":"10.0.0.1:80"}`, endpoint{address: "10.0.0.1:80"}, ""},
		{layoutAuto, `{"Op":0,"Addr":"10.0.0.1:80","Metadata":{ "zone": "a" }}`, endpoint{"10.0.0.1:80", `{"zone":"a"}`}, ""},
		{layoutAuto, `{"Op":0,"Addr":"10.0.0.1:80","Metadata":"x"}`, endpoint{"10.0.0.1:80", `"x"`}, ""},
		{layoutZRPC, "10.0.0.1:80", endpoint{address: "10.0.0.1:80"}, ""},
		{layoutEndpoints, `{"Addr":"10.0.0.1:80"}`, endpoint{address: "10.0.0.1:80"}, ""},
		{layoutZRPC, `{"Addr":"10.0.0.1:80"}`, endpoint{}, "host"},
		{layoutEndpoints, "10.0.0.1:80", endpoint{}, "JSON"},
		{layoutAuto, "", endpoint{}, "not host:port"},
		{layoutAuto, "{", endpoint{}, "JSON"},
		{layoutAuto, "{}", endpoint{}, "not host:port"},
		{layoutAuto, `{"Op":1,"Addr":"10.0.0.1:80"}`, endpoint{}, "Op"},
		{layoutAuto, `{"Op":"x","Addr":"10.0.0.1:80"}`, endpoint{}, "JSON"},
		{layoutAuto, `{"Addr":"10.0.0.1"}`, endpoint{}, "not host:port"},
	} {
		got, err := parseEndpoint(tc.layout, []byte(tc.value))
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s %q: %v, want %q", tc.layout, tc.value, err, tc.fault)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("%s %q: %+v, %v; want %+v", tc.layout, tc.value, got, err, tc.want)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"10.0.0.1:80", "[::1]:80", `{"Op":0,"Addr":"a:1","Metadata":{"k":[1,2]}}`, "{", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		e, err := parseEndpoint(layoutAuto, []byte(value))
		if err != nil {
			return
		}
		if err := checkAddress(e.address); err != nil {
			t.Errorf("accepted %q: %v", value, err)
		}
		if e.metadata != "" && !json.Valid([]byte(e.metadata)) {
			t.Errorf("metadata %q is not JSON", e.metadata)
		}
	})
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	state := stateOf([]endpoint{{"a:1", `{"zone":"a"}`}, {"b:1", ""}})
	if got := string(Metadata(state.Endpoints[0])); got != `{"zone":"a"}` {
		t.Errorf("metadata = %q", got)
	}
	if got := Metadata(state.Endpoints[1]); got != nil {
		t.Errorf("metadata of an endpoint without = %q", got)
	}
	if state.Addresses[1].Addr != "b:1" || state.Endpoints[1].Addresses[0].Addr != "b:1" {
		t.Errorf("state = %v", state)
	}
}

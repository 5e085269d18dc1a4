package discovery

import (
	"maps"
	"testing"
)

func TestLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value string
		want  map[string]string
	}{
		"zRPC's layout has none": {"10.0.0.1:80", nil},
		"no metadata":            {`{"Op": 0, "Addr": "10.0.0.1:80"}`, nil},
		"null":                   {`{"Op": 0, "Addr": "10.0.0.1:80", "Metadata": null}`, nil},
		"text alone":             {`{"Op": 0, "Addr": "10.0.0.1:80", "Metadata": "v2"}`, nil},
		"a list":                 {`{"Op": 0, "Addr": "10.0.0.1:80", "Metadata": ["v2"]}`, nil},
		"texts":                  {`{"Op": 0, "Addr": "10.0.0.1:80", "Metadata": {"zone": "a", "empty": ""}}`, map[string]string{"zone": "a", "empty": ""}},
		"numbers and switches": {
			`{"Addr": "10.0.0.1:80", "Metadata": {"weight": 5, "version": 1.10, "id": 12345678901234567890, "canary": true, "old": false}}`,
			map[string]string{"weight": "5", "version": "1.10", "id": "12345678901234567890", "canary": "true", "old": "false"},
		},
		"what is nested is left out": {`{"Addr": "10.0.0.1:80", "Metadata": {"zone": "a", "tags": ["x"], "more": {"zone": "b"}, "none": null}}`, map[string]string{"zone": "a"}},
	} {
		e, err := parseEndpoint(layoutAuto, []byte(tc.value))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := Labels(stateOf([]endpoint{e}).Endpoints[0]); !maps.Equal(got, tc.want) {
			t.Errorf("%s: labels %v, want %v", name, got, tc.want)
		}
	}
}

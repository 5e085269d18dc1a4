package main

import (
	"io"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const (
		config  = `{"config":{"protocol_version":"v1.0.0"}}`
		osv     = `{"osv":{"id":"GO-1","summary":"a hole"}}{"osv":{"id":"GO-2","summary":"another"}}`
		called  = `{"finding":{"osv":"GO-1","fixed_version":"v1.2.4","trace":[{"module":"example.com/m","version":"v1.2.3","package":"example.com/m/p","function":"F"}]}}`
		present = `{"finding":{"osv":"GO-1","trace":[{"module":"example.com/m","version":"v1.2.3","package":"example.com/m/p"}]}}`
		library = `{"finding":{"osv":"GO-2","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"net/http","function":"F"}]}}`
	)
	for name, test := range map[string]struct{ in, text, fault string }{
		"called":               {config + osv + present + called, "GO-1: example.com/m@v1.2.3, example.com/m/p: a hole (fixed in v1.2.4)\n", "GO-1"},
		"only present":         {config + osv + present, "", ""},
		"the standard library": {config + osv + library, "GO-2: stdlib@v1.26.8, net/http: another (fixed in v1.26.9)\n", ""},
		"both":                 {config + osv + library + called, "GO-2: stdlib", "called: GO-1"},
		"nothing":              {config, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := read(strings.NewReader(test.in))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = found.report(&out)
			if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("error %v, want %q", err, test.fault)
			}
			if !strings.Contains(out.String(), test.text) || test.text == "" && out.Len() > 0 {
				t.Errorf("told %q, want %q", out.String(), test.text)
			}
		})
	}
}

// A scan that broke off must not pass for one that found nothing.
func TestReadRefusesWhatIsNoScan(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "{", `{"config":{}}{"finding":`, "no JSON"} {
		if _, err := read(strings.NewReader(in)); err == nil {
			t.Errorf("%q passed", in)
		}
	}
	if err := (findings{}).report(io.Discard); err != nil {
		t.Error(err)
	}
}

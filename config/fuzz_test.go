package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../etc/gateway.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	for _, text := range []string{
		"", minimal, minimal + "routes: [{method: a.B/C, http: {get: /a, additional_bindings: [{post: /b, body: '*'}]}}]\n",
		"a: &a [*a]", "a: &a {<<: *a}", "<<: [{http: {}}, {grpc: {}}]", "? [a]\n: b", "!!binary aGk=", "http: !!map {}\n", "--- \n--- \n", "a: *b",
		"redis: {password: ${A}, pool_size: ${B:-1}}", "backends: [{method_timeouts: {'[\"': 1s}}]", "http: {address: \"${A:-$$}\"}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("gateway.yaml", []byte(text), environment("A", "topsecret", "B", "7"))
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("valid after Parse, but: %v", err)
			}
			return
		}
		var faults config.Faults
		if !errors.As(err, &faults) || len(faults) == 0 || c != nil {
			t.Fatalf("Parse gives %v and an error that is no faults: %v", c, err)
		}
		lines := strings.Count(text, "\n") + 1 + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines+1 || fault.Column < 1 || fault.Message == "" {
				t.Errorf("fault without a place or a message: %#v", fault)
			}
			if strings.ContainsAny(fault.Error(), "\n\r") {
				t.Errorf("fault of several lines: %q", fault.Error())
			}
			if strings.Contains(fault.Error(), "topsecret") && !strings.Contains(text, "topsecret") {
				t.Errorf("fault with a variable's value: %v", fault)
			}
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"0", "4MiB", "1GB", "9223372036854775807", "1.5KB", "-1B", "16TiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := config.ParseSize(text)
		if err != nil {
			return
		}
		if again, err := config.ParseSize(size.String()); size < 0 || err != nil || again != size {
			t.Errorf("%q is %d, which writes itself as %v, which is read as %d, %v", text, size, size, again, err)
		}
	})
}

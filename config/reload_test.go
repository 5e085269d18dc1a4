package config_test

import (
	"slices"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

func TestFixedChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*config.Config)
		want   []string
	}{
		{"nothing", func(*config.Config) {}, nil},
		{"backends and routes", func(c *config.Config) {
			c.Backends = append(c.Backends, config.DefaultBackend("new"))
			c.Routes = append(c.Routes, config.Route{Method: "a.B/C"})
		}, nil},
		{"a listener and a secret", func(c *config.Config) {
			c.HTTP.Address = ":1"
			c.Redis.Password = "other"
		}, []string{"http", "redis"}},
		{"an optional section", func(c *config.Config) { c.Register = &config.Register{Key: "k"} }, []string{"register"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			next := config.Defaults()
			tc.change(next)
			if got := config.Defaults().FixedChanges(next); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

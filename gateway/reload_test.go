package gateway

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rpcgate/rpcgate/config"
)

func TestReloadOfWhatDoesNotServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{started: make(chan struct{}), stopping: make(chan struct{}), reloads: make(chan reloading)}
		if err := g.Reload(t.Context(), &config.Config{}, nil); !errors.Is(err, ErrNotServing) {
			t.Errorf("before the start: %v", err)
		}
		close(g.started)
		close(g.stopping)
		if err := g.Reload(t.Context(), &config.Config{}, nil); !errors.Is(err, ErrNotServing) {
			t.Errorf("after the stop: %v", err)
		}
	})
}

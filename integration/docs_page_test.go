package integration_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/integration/gatewaytest"
	"github.com/rpcgate/rpcgate/integration/nodetest"
)

// The documentation pages work in a browser under their own policy, load nothing
// from elsewhere, and try operations out: at the edge, and from the admin port
// where CORS lets them.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	node := nodetest.Install(t, "clients")
	admin := gatewaytest.FreeAddress(t)
	r, _ := newEchoRig(t, "", fmt.Sprintf(
		"admin: {address: %q}\nhttp: {address: '127.0.0.1:0', openapi: true, cors: {allowed_origins: ['http://%s']}}\n", admin, admin))
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	pages := []string{"http://" + r.HTTP + "/docs/", "http://" + admin + "/docs/"}
	cmd := node.Command(ctx, "docs.mjs", append([]string{chromium(t)}, pages...)...)
	cmd.Env = append(os.Environ(), "APP="+r.app, "TOKEN="+r.token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, page := range pages {
		if !strings.Contains(string(out), "ok "+page+"\n") {
			t.Errorf("%s was not tried:\n%s", page, out)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rpcgate/rpcgate/bench/internal/proc"
)

const (
	rootModule  = "github.com/rpcgate/rpcgate"
	peerPackage = rootModule + "/bench/cmd/peer"
)

// programs are the binaries of a run.
type programs struct {
	root    string // the main module's folder
	gateway string
	peer    string
	version string // what the gateway calls itself
}

// buildAll builds the gateway in its own module, with the versions of its
// dependencies that it is released with, and the peers in this one. Both are
// built as `make build` does.
func buildAll(ctx context.Context, dir, gateway string) (programs, error) {
	root, err := proc.Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", rootModule)
	if err != nil {
		return programs{}, fmt.Errorf("looking for the main module (run this inside bench/): %w", err)
	}
	p := programs{root: root, gateway: gateway, peer: filepath.Join(dir, "peer")}
	if gateway == "" {
		p.gateway = filepath.Join(dir, "gateway")
		if err := goBuild(ctx, root, p.gateway, "./cmd/gateway"); err != nil {
			return programs{}, err
		}
	}
	if err := goBuild(ctx, "", p.peer, peerPackage); err != nil {
		return programs{}, err
	}
	if p.version, err = proc.Output(ctx, root, "git", "describe", "--tags", "--always", "--dirty"); err != nil || gateway != "" {
		p.version = "" // no git, or not this checkout: not worth failing for
	}
	return p, nil
}

func goBuild(ctx context.Context, module, binary, pkg string) error {
	_, err := proc.Output(ctx, module, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, pkg)
	return err
}

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rpcgate/rpcgate/telemetry"
)

// currentBuild says which build this is: what the linker was told, else what
// the Go toolchain wrote down.
func currentBuild() telemetry.Build {
	b := telemetry.Build{Version: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Example: `  gateway version`,
		Args:    noArgs,
	}
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *format == outputJSON {
			b := currentBuild()
			return printJSON(cmd.OutOrStdout(), map[string]string{
				"version": b.Version, "revision": b.Revision, "go": runtime.Version(), "platform": platform(),
			})
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), buildText())
		return err
	}
	return cmd
}

// buildText is the build in one line.
func buildText() string {
	b := currentBuild()
	words := []string{"rpcgate", b.Version, b.Revision, runtime.Version(), platform()}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

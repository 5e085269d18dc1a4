package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is a command line that asks for nothing that can be done.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errReported is a failure that the command has told the user of already.
var errReported = errors.New("failed")

// process is what a command has of the process that it runs in.
type process struct {
	stdout, stderr io.Writer
	takeLogs       func(*slog.Logger) // sends the libraries' logs to the command's
}

// run is the whole program: it runs one command line and returns its exit
// status.
func run(ctx context.Context, p process, args []string) int {
	root := newRoot(p.takeLogs)
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(p.stderr, "%s: %v\nSee '%s --help'.\n", cmd.CommandPath(), err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	default:
		_, _ = fmt.Fprintf(p.stderr, "%s: %v\n", cmd.CommandPath(), err)
		return exitFailed
	}
}

func newRoot(takeLogs func(*slog.Logger)) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "gateway",
		Short: "rpcgate, a multi-tenant gateway from HTTP/JSON and gRPC to gRPC backends",
		Long: `rpcgate, a multi-tenant gateway from HTTP/JSON and gRPC to gRPC backends.

The exit status is 0; 1 when what was asked for failed; 2 when it was asked for
in the wrong way; 130 when a second SIGINT or SIGTERM ended it at once.`,
		Example: `  gateway demo
  gateway serve -c gateway.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
	},
		newServe(takeLogs), newDemo(takeLogs), newCheck(), newRoutes(takeLogs), newOpenAPI(takeLogs), newApp(), newToken(), newUsage(), newAudit(), newOperator(), newImport(), newBackends(), newBreaker(), newHealth(), newVersion())
	root.CompletionOptions.HiddenDefaultCmd = true
	root.Version = buildText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	return root
}

// group makes parent a command that only its children do something for. Cobra's
// own way with an unknown child of a child is to print help and exit 0.
func group(parent *cobra.Command, children ...*cobra.Command) *cobra.Command {
	parent.AddCommand(children...)
	parent.Args = cobra.ArbitraryArgs
	parent.SuggestionsMinimumDistance = 2
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help()
			return usagef("a command is missing")
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return usagef("unknown command %q; did you mean %q?", args[0], near[0])
		}
		return usagef("unknown command %q", args[0])
	}
	return parent
}

// noArgs refuses positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.Flags().Lookup("app") != nil && !cmd.Flags().Changed("app") {
		return usagef("unexpected argument %q; an app is named by --app", args[0])
	}
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}

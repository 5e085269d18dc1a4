package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rpcgate/rpcgate/integration/redistest"
	"github.com/rpcgate/rpcgate/rpcproxy/balancer"
)

func TestMain(m *testing.M) {
	// As main does, for the commands that are run in this process.
	balancer.Register()
	takeLogs(slog.New(slog.DiscardHandler))
	testscript.Main(m, map[string]func(){"gateway": main})
}

// The scripts in testdata read like sessions at a terminal; `gateway` in them is
// this test binary. $REDIS is a real Redis, which all scripts share.
func TestScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("REDIS", server.Addr)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"envfile": loadEnvFile,
			"capture": capture,
			"redis":   redisCommand(server),
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// await waits until a file is there: `await FILE`.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	const limit = 20 * time.Second
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is not there after %s", args[0], limit)
		}
	}
}

// redisCommand does something in a Redis: `redis HSET KEY FIELD VALUE`.
func redisCommand(server *redistest.Server) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: redis COMMAND [ARGUMENT...]")
		}
		command := make([]any, len(args))
		for i, arg := range args {
			command[i] = arg
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ts.Check(server.Client().Do(ctx, command...).Err())
	}
}

// loadEnvFile sets the environment from a file of NAME=value lines: `envfile FILE`.
func loadEnvFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: envfile FILE")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			ts.Fatalf("%s: %q is not NAME=value", args[0], line)
		}
		ts.Setenv(name, value)
	}
}

// capture sets a variable to a field of a line of the last command's standard
// output, both from 1: `capture NAME LINE FIELD`.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	var line, field int
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture NAME LINE FIELD")
	}
	if _, err := fmt.Sscan(args[1]+" "+args[2], &line, &field); err != nil {
		ts.Fatalf("capture: %v", err)
	}
	lines := strings.Split(ts.ReadFile("stdout"), "\n")
	if line > len(lines) {
		ts.Fatalf("capture: there are only %d lines", len(lines))
	}
	fields := strings.Fields(lines[line-1])
	if field > len(fields) {
		ts.Fatalf("capture: line %d has only %d fields: %q", line, len(fields), lines[line-1])
	}
	ts.Setenv(args[0], fields[field-1])
}

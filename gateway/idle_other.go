//go:build !unix

package gateway

import "runtime"

// idle waits until a processor has nothing else to do, as far as to yield does it.
type idle struct{}

func newIdle() (*idle, error) { return new(idle), nil }

func (*idle) wait() { runtime.Gosched() }

func (*idle) close() error { return nil }

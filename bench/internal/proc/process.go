package proc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Spec is a process to start.
type Spec struct {
	Name string // for errors and for its log's name
	Path string
	Args []string
	Env  []string // added to the run's own
	Dir  string   // where what it prints goes to, in <Name>.log
}

// Process is a running child. It ends with the context it was started under, at
// the latest.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // why it ended, once exited is closed
}

// grace is how long a process may take to end after SIGTERM before it is killed.
const grace = 3 * time.Second

// Start starts the process. It gets SIGTERM when ctx ends; Wait waits for its end.
func Start(ctx context.Context, s Spec) (*Process, error) {
	name := filepath.Join(s.Dir, s.Name+".log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own

	cmd := exec.CommandContext(ctx, s.Path, s.Args...) //nolint:gosec // the run names its own programs
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	p := &Process{Name: s.Name, cmd: cmd, log: name, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Wait waits for the end of the process.
func (p *Process) Wait() { <-p.exited }

// Usage reads what the process has used so far.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.exited:
		return Usage{}, p.explain(fmt.Errorf("ended: %w", p.err))
	default:
	}
	u, err := ReadUsage(p.cmd.Process.Pid)
	if err != nil {
		return Usage{}, p.explain(err)
	}
	return u, nil
}

// Await asks until ready says nil, the process ends, or the time is over.
func (p *Process) Await(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-p.exited:
			return p.explain(fmt.Errorf("ended before it was ready: %w", p.err))
		case <-ctx.Done():
			return p.explain(fmt.Errorf("not ready after %v: %w", timeout, err))
		}
	}
}

// explain adds the end of the process's log to an error.
func (p *Process) explain(err error) error {
	const most = 2000
	text, readErr := os.ReadFile(p.log)
	if readErr != nil || len(text) == 0 {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return fmt.Errorf("%s: %w; what it printed ends with:\n%s", p.Name, err, text[max(0, len(text)-most):])
}

// FreeAddress is a loopback address that nobody listens on now. Somebody else
// may take it before it is used, which then shows as a failed start.
func FreeAddress(ctx context.Context) (string, error) {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}

// Accepts says nil when somebody accepts connections at the address.
func Accepts(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

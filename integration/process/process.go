// Package process starts real servers for tests and does to them what happens
// to servers: they are killed, paused, and come back on the same port.
package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a server may take until it is ready; machines that
// run many tests at once are slow.
const startTimeout = 60 * time.Second

// errExited is what AwaitReady returns when the process ended instead.
var errExited = errors.New("process ended before it was ready")

// Process is a running program. It is killed at the end of the test, and what
// it last printed is logged if the test failed. Its methods are for one
// goroutine at a time.
type Process struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; read after done
}

// Start starts the program. It fails the test if that cannot be done.
func Start(tb testing.TB, program string, args ...string) *Process {
	tb.Helper()
	p := &Process{cmd: exec.Command(program, args...), output: new(tail), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = DieWithParent()
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("starting %s: %v", program, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() && p.Output() != "" {
			tb.Logf("%s printed last:\n%s", p.cmd, p.output)
		}
	})
	return p
}

// AwaitReady waits until ready returns nil. It fails when the process ends
// before, or does not get ready in time.
func (p *Process) AwaitReady(ready func() error) error {
	limit := time.NewTimer(startTimeout)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := ready()
		select {
		case <-p.done: // and not another server that answers on its port
			return fmt.Errorf("%w: %w; it printed:\n%s", errExited, p.err, p.output)
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-limit.C:
			return fmt.Errorf("%s is not ready after %v: %w; it printed:\n%s", p.cmd.Path, startTimeout, err, p.output)
		case <-poll.C:
		}
	}
}

// Signal sends a signal; one to a process that has ended is no error.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the process at once, as a crash does, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Pause stops the process where it is: its connections stay open and nothing
// answers.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	awaitStopped(p.PID())
}

// Resume lets a paused process go on.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the status that the process ended with; -1 when by a signal. It
// waits for the end.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns the last part of what the process printed.
func (p *Process) Output() string { return p.output.String() }

// StartOnPorts calls start with n free ports until the process it starts gets
// ready: another program may take a port between its choice and its use.
func StartOnPorts(tb testing.TB, n int, start func(ports []int) (*Process, error)) (*Process, []int) {
	tb.Helper()
	const attempts = 5
	for attempt := 1; ; attempt++ {
		ports := make([]int, n)
		for i := range ports {
			ports[i] = FreePort(tb)
		}
		p, err := start(ports)
		if err == nil {
			return p, ports
		}
		if !errors.Is(err, errExited) || attempt == attempts {
			tb.Fatal(err)
		}
		tb.Logf("trying other ports: %v", err)
	}
}

// FreePort returns a TCP port of the loopback interface that nobody listens on.
// It lies below the range from which systems take the ports of outgoing
// connections, so that it is still free when a server returns to it.
func FreePort(tb testing.TB) int {
	tb.Helper()
	const from, to, attempts = 15000, 32000, 100
	var listener net.ListenConfig
	for range attempts {
		port := from + rand.IntN(to-from)
		lis, err := listener.Listen(tb.Context(), "tcp", Loopback(port))
		if err != nil {
			continue
		}
		_ = lis.Close()
		return port
	}
	tb.Fatal("found no free port")
	return 0
}

// Loopback returns the host:port of a port on the loopback interface.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// tail keeps the last part of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 256 << 10

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if len(b.data) > 2*tailSize {
		b.data = append(b.data[:0], b.data[len(b.data)-tailSize:]...)
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.data)
}

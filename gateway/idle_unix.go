//go:build unix

package gateway

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// idle waits until a processor has nothing else to do. The scheduler looks for what
// the network has ready only when nothing else is; to yield is not enough, as who
// yields goes on before it has looked. So a byte is written into a pipe: its arrival
// shows together with all that has arrived on connections, which then goes first.
// When processors are never idle, the runtime looks all the same, every 10 ms.
type idle struct {
	in, out *os.File
	raw     syscall.RawConn
}

// newIdle makes one, for one goroutine at a time.
func newIdle() (*idle, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	raw, err := out.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &idle{in: in, out: out, raw: raw}, nil
}

// wait waits.
func (i *idle) wait() {
	var buf [1]byte
	written := false
	_ = i.raw.Read(func(fd uintptr) bool {
		if written {
			_, _ = syscall.Read(int(fd), buf[:]) // it is there
			return true
		}
		written = true
		n, err := i.in.Write(buf[:])
		return n == 0 || err != nil // nothing to wait for
	})
	runtime.Gosched()
}

func (i *idle) close() error { return errors.Join(i.in.Close(), i.out.Close()) }

package clockstep

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Clock is the wall clock of one process. Its methods are for one goroutine at a
// time, the one that has the process.
type Clock struct {
	tb      testing.TB
	process *process.Process
	vdso    span
	at      uint64 // of the function that tells the time
}

type span struct{ from, to uint64 }

// Of returns the wall clock of a running process, which goes on as it was.
func Of(tb testing.TB, p *process.Process) *Clock {
	tb.Helper()
	c := &Clock{tb: tb, process: p}
	if err := c.find(); err != nil {
		tb.Fatalf("finding the clock of process %d: %v", p.PID(), err)
	}
	c.Set(0)
	return c
}

// Set has the process' wall clock differ from the machine's by so many whole
// seconds, from one moment to the next.
func (c *Clock) Set(difference time.Duration) {
	c.tb.Helper()
	const attempts = 1000
	for range attempts {
		c.process.Pause()
		busy, err := c.inUse()
		if err == nil && !busy {
			err = c.patch(int64(difference / time.Second))
		}
		c.process.Resume()
		if err != nil {
			c.tb.Fatalf("setting the clock of process %d: %v", c.process.PID(), err)
		}
		if !busy {
			return
		}
	}
	c.tb.Fatalf("process %d never stood outside of its clock", c.process.PID())
}

// find looks for the process' vDSO and in it for the function.
func (c *Clock) find() error {
	maps, err := os.ReadFile(c.proc("maps"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &c.vdso.from, &c.vdso.to); err != nil {
				return err
			}
		}
	}
	if c.vdso.to == 0 {
		return errors.New("it has no vDSO")
	}
	mem, err := os.Open(c.proc("mem"))
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }()
	image := make([]byte, c.vdso.to-c.vdso.from)
	if _, err := mem.ReadAt(image, int64(c.vdso.from)); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			c.at = c.vdso.from + s.Value
			return nil
		}
	}
	return errors.New("its vDSO has no clock_gettime")
}

// patch puts a function in the place of the vDSO's: it asks the kernel, and adds
// to the seconds of CLOCK_REALTIME.
func (c *Clock) patch(seconds int64) error {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime; the arguments are where they are
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME?
		0x75, 13, // jne to the end
		0x48, 0xb9, // mov rcx, seconds
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(seconds))
	code = append(code,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	)
	mem, err := os.OpenFile(c.proc("mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = mem.WriteAt(code, int64(c.at))
	return errors.Join(err, mem.Close())
}

// inUse tells whether a thread of the stopped process is in the vDSO.
func (c *Clock) inUse() (bool, error) {
	threads, err := filepath.Glob(c.proc("task/*/syscall"))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return true, nil // "running": not stopped yet
		}
		counter, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return false, err
		}
		if c.vdso.from <= counter && counter < c.vdso.to {
			return true, nil
		}
	}
	return false, nil
}

func (c *Clock) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", c.process.PID(), name) }

package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// DieWithParent has the kernel kill a process when the one that started it ends
// without its clean-up, as a test binary does at a test timeout.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until each thread of a process that was sent SIGSTOP stands
// still: the signal reaches those that run on another processor a moment later.
func awaitStopped(pid int) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for range int(time.Second / time.Millisecond) {
		if stopped(pid) {
			return
		}
		<-again.C
	}
}

// stopped tells whether all threads of a process are, or have ended.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // fails only on a bad pattern
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state …; the name may have brackets of its own.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && len(stat) > i+2 && stat[i+2] != 'T' && stat[i+2] != 't' {
			return false
		}
	}
	return true
}

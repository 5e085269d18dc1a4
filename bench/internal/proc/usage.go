// Package proc owns the processes that a run starts: each is started, its CPU
// time and memory read from /proc, and stopped again with the run.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used so far.
type Usage struct {
	User, System time.Duration
	Resident     int64 // bytes in memory now
}

// CPU is the time spent in user and system mode together.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Since is the CPU time used since an earlier reading; Resident is now's.
func (u Usage) Since(earlier Usage) Usage {
	return Usage{User: u.User - earlier.User, System: u.System - earlier.System, Resident: u.Resident}
}

// tick is the unit of the times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// ReadUsage reads what the process with the id has used.
func ReadUsage(pid int) (Usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseStat(text, os.Getpagesize())
}

// The fields of /proc/<pid>/stat (proc_pid_stat(5)), counted from the one that
// follows the command's name.
const (
	statUser     = 14 - 3
	statSystem   = 15 - 3
	statResident = 24 - 3
)

func parseStat(text []byte, pageSize int) (Usage, error) {
	// The command's name stands in parentheses and may hold spaces and parentheses itself.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return Usage{}, fmt.Errorf("no command name in %.40q", text)
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= statResident {
		return Usage{}, fmt.Errorf("%d fields after the command name, want more than %d", len(fields), statResident)
	}
	var numbers [3]int64
	for i, field := range []int{statUser, statSystem, statResident} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("field %d: %w", field+3, err)
		}
		numbers[i] = n
	}
	return Usage{
		User:     time.Duration(numbers[0]) * tick,
		System:   time.Duration(numbers[1]) * tick,
		Resident: numbers[2] * int64(pageSize),
	}, nil
}

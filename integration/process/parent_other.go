//go:build !linux

package process

import "syscall"

// DieWithParent is only known to Linux.
func DieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped is only known to Linux.
func awaitStopped(int) {}

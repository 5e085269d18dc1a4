//go:build !linux

package process

import "syscall"

// dieWithParent is only known to Linux.
func dieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped is only known to Linux.
func awaitStopped(int) {}

package process

import "syscall"

// dieWithParent has the kernel kill the process when the test binary ends
// without its clean-up, as it does at a test timeout.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

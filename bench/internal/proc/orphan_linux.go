package proc

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when the run is killed without a
// chance to end it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Package clockstep steps the wall clock of a single process, as a machine's
// clock is stepped that was wrong, while its monotonic clock goes on. Programs in
// Go ask neither the C library nor the kernel for the time, so that libfaketime
// and time namespaces (which have no wall clock) do nothing for them: they call
// the vDSO, the code that the kernel puts into each process. It is that code that
// is replaced, in this process alone. It takes the rights of a debugger.
package clockstep

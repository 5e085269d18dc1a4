package load

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// CPU measures how much this process uses of the processors that it may use. It
// is for one goroutine at a time.
//
// That is its own time, of what GOMAXPROCS allows; or, where its cgroup or one
// above has a quota, the cgroup's time, of the quota, whichever is nearer to the
// end: either can run out. The load of the machine is not in it, nor that of a
// cgroup without a quota: others make it, and can go on making it when this
// process does nothing at all.
type CPU struct {
	group *cgroup // nil: no quota
	now   func() time.Time

	own, cgroup usage
}

// usage is processor time, at the last measurement and fading over those before.
type usage struct {
	at   time.Time
	used time.Duration

	spent, passed float64 // seconds
}

// share takes in a measurement and tells how much of allowed was used of late. The
// two are summed up apart: the clock may be read long after the other where the
// process has to wait, and what one interval has too much the next has too little.
func (u *usage) share(at time.Time, used time.Duration, allowed float64) float64 {
	if !u.at.IsZero() {
		u.spent = fading*u.spent + max(0, used-u.used).Seconds()
		u.passed = fading*u.passed + at.Sub(u.at).Seconds()
	}
	u.at, u.used = at, used
	if u.passed <= 0 {
		return 0
	}
	return min(1, u.spent/u.passed/allowed)
}

// NewCPU makes a CPU that measures from now on.
func NewCPU() *CPU {
	c := &CPU{group: findCgroup(os.DirFS("/")), now: time.Now}
	c.Share()
	return c
}

// Share is the share that was used of late, 0 to 1: since it was last asked, and,
// less and less, before.
func (c *CPU) Share() float64 {
	share := c.own.share(c.now(), ownTime(), float64(runtime.GOMAXPROCS(0)))
	if c.group == nil {
		return share
	}
	quota, ok := c.group.quota()
	used, err := c.group.used()
	if !ok || err != nil { // lifted since
		c.cgroup = usage{}
		return share
	}
	return max(share, c.cgroup.share(c.now(), used, quota))
}

// ownTime is the processor time that this process has used.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package load

import (
	"testing"
	"testing/fstest"
	"time"
)

func files(texts map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range texts {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

const (
	mountV2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)

// The quota that bounds a process is found in both versions, its own or one
// above; what has none is no cgroup to measure.
func TestFindCgroup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		quota float64 // 0: none is found
		used  time.Duration
	}{
		"v2": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/kubepods/pod1/cpu.max":  "150000 100000\n",
			"sys/fs/cgroup/kubepods/pod1/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
		}, 1.5, 2500 * time.Millisecond},
		"v2, the cgroup above is tighter": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/b/cpu.stat": "usage_usec 1\n",
			"sys/fs/cgroup/a/cpu.max": "100000 100000\n", "sys/fs/cgroup/a/cpu.stat": "usage_usec 7\n",
		}, 1, 7 * time.Microsecond},
		"v2 in a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "9 8 0:1 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/cpu.max": "50000 100000\n", "sys/fs/cgroup/cpu.stat": "usage_usec 3\n",
		}, 0.5, 3 * time.Microsecond},
		"v2, no quota": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/a/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.stat": "usage_usec 3\n",
		}, 0, 0},
		"v1": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/docker/x\n0::/\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us":  "200000\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpuacct.usage":     "5000000000\n",
		}, 2, 5 * time.Second},
		"v1 in a container, named as on the host": {map[string]string{
			"proc/self/cgroup":                            "4:cpu,cpuacct:/docker/x\n",
			"proc/self/mountinfo":                         "32 31 0:29 /docker/y /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "20000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpuacct.usage":     "1\n",
		}, 0.2, 1},
		"v1, apart": {map[string]string{
			"proc/self/cgroup": "2:cpuacct:/x\n1:cpu:/x\n",
			"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
				"33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":  "30000\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "10000\n",
			"sys/fs/cgroup/cpuacct/x/cpuacct.usage": "2\n",
		}, 3, 2},
		"v1, no quota": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpuacct.usage":     "2\n",
		}, 0, 0},
		"a quota without a count of what was used": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/a/cpu.max": "50000 100000\n",
		}, 0, 0},
		"no cgroups": {map[string]string{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := findCgroup(files(tc.files))
			if tc.quota == 0 {
				if g != nil {
					t.Fatalf("found %+v", g)
				}
				return
			}
			if g == nil {
				t.Fatal("found none")
			}
			quota, _ := g.quota()
			used, err := g.used()
			if quota != tc.quota || used != tc.used || err != nil {
				t.Errorf("quota %v, used %v, %v; want %v, %v", quota, used, err, tc.quota, tc.used)
			}
		})
	}
}

// A mount's name may hold blanks, escaped.
func TestParseMountsUnescapes(t *testing.T) {
	t.Parallel()
	got := parseMounts([]byte(`1 2 0:1 / /a\040b rw - cgroup2 x rw` + "\nnonsense\n1 2 - cgroup2\n"))
	if want := (mount{point: "/a b", root: "/"}); got[""] != want || len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// Whatever the files hold, reading them ends, and finds nothing outside of the
// mounts.
func FuzzFindCgroup(f *testing.F) {
	f.Add("0::/a/b\n", mountV2, "150000 100000\n")
	f.Add("4:cpu,cpuacct:/x\n", mountV1, "max 100000")
	f.Add("0::/../..\n", "9 8 0:1 /.. /.. ro - cgroup2 cgroup rw\n", "1 1")
	f.Fuzz(func(t *testing.T, member, mounts, quota string) {
		root := files(map[string]string{
			"proc/self/cgroup": member, "proc/self/mountinfo": mounts,
			"sys/fs/cgroup/cpu.max": quota, "sys/fs/cgroup/cpu.stat": "usage_usec 1\n",
		})
		if g := findCgroup(root); g != nil {
			if quota, ok := g.quota(); !ok || quota <= 0 {
				t.Errorf("a quota of %v", quota)
			}
		}
	})
}

// The share is of the quota, or of the processors, whichever is used up more;
// where the quota is lifted, it is the processors'.
func TestShare(t *testing.T) {
	t.Parallel()
	fs := files(map[string]string{
		"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
		"sys/fs/cgroup/cpu.max": "50000 100000\n", "sys/fs/cgroup/cpu.stat": "usage_usec 1000000\n",
	})
	now := time.Now()
	c := &CPU{group: findCgroup(fs), now: func() time.Time { return now }}
	c.Share()
	if got, _ := c.group.quota(); got != 0.5 {
		t.Fatalf("a quota of %v", got)
	}
	now = now.Add(time.Hour) // in which the test itself uses nothing to speak of
	fs["sys/fs/cgroup/cpu.stat"].Data = []byte("usage_usec 901000000\n")
	if got := c.Share(); got < 0.499 || got > 0.501 { // nothing was before
		t.Errorf("900 s of half an hour are a share of %v", got)
	}
	now = now.Add(time.Hour)
	fs["sys/fs/cgroup/cpu.max"].Data = []byte("max 100000\n")
	fs["sys/fs/cgroup/cpu.stat"].Data = []byte("usage_usec 90100000000\n")
	if got := c.Share(); got > 0.01 {
		t.Errorf("without a quota the cgroup's share is %v", got)
	}
}

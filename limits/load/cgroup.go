package load

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// cgroup is the control group whose quota bounds this process: its own, or the
// one above with the least quota.
type cgroup struct {
	files fs.FS
	// The files with the quota and the time used. v1 has the quota and its period
	// in two files, and the time in nanoseconds; v2 has "quota period" and lines.
	quotaFile, periodFile, usedFile string
}

// findCgroup gives the cgroup that bounds this process; nil where none has a
// quota, or the system has none of this. root is the root of the file system.
func findCgroup(root fs.FS) *cgroup {
	member, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var found *cgroup
	least := 0.0
	for _, g := range candidates(root, parseMembership(member), parseMounts(mounts)) {
		if quota, ok := g.quota(); ok && (found == nil || quota < least) {
			if _, err := g.used(); err == nil {
				found, least = g, quota
			}
		}
	}
	return found
}

// candidates are the cgroups from this process's own up to the root of what it
// can see.
func candidates(root fs.FS, member map[string]string, mounts map[string]mount) (all []*cgroup) {
	if m, ok := mounts["cpu"]; ok {
		used, ok := mounts["cpuacct"]
		if !ok {
			used = m
		}
		usedFolders := used.upwards(member["cpuacct"])
		for i, folder := range m.upwards(member["cpu"]) {
			if i < len(usedFolders) {
				all = append(all, &cgroup{
					files: root, quotaFile: path.Join(folder, "cpu.cfs_quota_us"), periodFile: path.Join(folder, "cpu.cfs_period_us"),
					usedFile: path.Join(usedFolders[i], "cpuacct.usage"),
				})
			}
		}
	}
	if m, ok := mounts[""]; ok {
		for _, folder := range m.upwards(member[""]) {
			all = append(all, &cgroup{files: root, quotaFile: path.Join(folder, "cpu.max"), usedFile: path.Join(folder, "cpu.stat")})
		}
	}
	return all
}

// mount is where a hierarchy of cgroups is to be seen, and which part of it.
type mount struct{ point, root string }

// upwards gives the folders of a cgroup and of those above it.
func (m mount) upwards(group string) (folders []string) {
	rel, ok := strings.CutPrefix(group, m.root)
	if !ok {
		// The mount shows another part than the one named, as in a container whose
		// /proc names its place on the host: its own is what is mounted.
		rel = ""
	}
	for rel = path.Clean("/" + rel); ; rel = path.Dir(rel) {
		folders = append(folders, strings.TrimPrefix(path.Join(m.point, rel), "/"))
		if rel == "/" {
			return folders
		}
	}
}

// parseMembership reads /proc/self/cgroup: "4:cpu,cpuacct:/a/b" for each
// hierarchy of version 1, "0::/a/b" for version 2. It gives paths by controller;
// "" is version 2's.
func parseMembership(text []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			out[controller] = parts[2]
		}
	}
	return out
}

// parseMounts reads /proc/self/mountinfo (proc(5)): fields, of which the fourth is
// the root within the file system and the fifth the mount point; after a dash the
// type, the source and the options, which name version 1's controllers.
func parseMounts(text []byte) map[string]mount {
	out := map[string]mount{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{point: unescape(fields[4]), root: unescape(fields[3])}
		switch kind[0] {
		case "cgroup2":
			out[""] = m
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if option == "cpu" || option == "cpuacct" {
					out[option] = m
				}
			}
		}
	}
	return out
}

// unescape resolves the four escapes that mountinfo has.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// quota is how many processors' time the cgroup may use; false: as much as it
// likes.
func (g *cgroup) quota() (processors float64, ok bool) {
	text, err := fs.ReadFile(g.files, g.quotaFile)
	if err != nil {
		return 0, false
	}
	quota, period := strings.TrimSpace(string(text)), ""
	if g.periodFile == "" {
		quota, period, _ = strings.Cut(quota, " ")
	} else if text, err = fs.ReadFile(g.files, g.periodFile); err == nil {
		period = strings.TrimSpace(string(text))
	}
	q, err1 := strconv.ParseInt(quota, 10, 64) // "max", and -1, for none
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return float64(q) / float64(p), true
}

// used is the processor time that the cgroup has used so far.
func (g *cgroup) used() (time.Duration, error) {
	text, err := fs.ReadFile(g.files, g.usedFile)
	if err != nil {
		return 0, err
	}
	if g.periodFile != "" {
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Duration(n), err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s has no usage_usec", g.usedFile)
}

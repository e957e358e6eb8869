package fair

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// mostGroups bounds how many sets of control groups are kept.
const mostGroups = 256

// noteGroups notes the limit of memory of a process (cgroups(7)). The groups of one that has
// just ended may be gone: nothing is known of it then.
func (w *Watch) noteGroups(pid string) {
	groups := head(w.own + "/" + pid + "/cgroup")
	if _, is := w.limits[groups]; is || len(w.limits) >= mostGroups {
		return
	}
	if limit, known := memoryLimit(groups, "/sys/fs/cgroup"); known {
		w.limits[groups] = limit
	}
}

// memoryLimit is the least limit of memory of the groups of a process and of those above
// them; 0: none, or they are not seen here. It is not known where a group was removed.
func memoryLimit(groups, mount string) (least int64, known bool) {
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		dir, file, sign := mount, "memory.max", "cgroup.controllers"
		switch {
		case strings.Contains(","+controllers+",", ",memory,"):
			dir, file, sign = path.Join(mount, "memory"), "memory.limit_in_bytes", "memory.limit_in_bytes"
		case id != "0":
			continue
		}
		if strings.HasPrefix(group, "/..") { // outside of what this process sees
			continue
		}
		if strings.HasSuffix(group, deleted) || exists(path.Join(dir, sign)) && !exists(path.Join(dir, group)) {
			return 0, false
		}
		for at := path.Clean("/" + group); ; at = path.Dir(at) {
			n, err := strconv.ParseInt(strings.TrimSpace(head(path.Join(dir, at, file))), 10, 64)
			if err == nil && n > 0 && n < unlimited && (least == 0 || n < least) {
				least = n
			}
			if at == "/" {
				break
			}
		}
	}
	return least, groups != ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// deleted is what cgroups(7) adds to the name of a group that was removed.
const deleted = " (deleted)"

// unlimited is about what a group without a limit has in version 1: all that a counter of
// pages holds.
const unlimited = 1 << 60

// loosest is the greatest of some limits; 0 where one has none.
func loosest(limits map[string]int64) (most int64) {
	for _, n := range limits {
		if n == 0 {
			return 0
		}
		most = max(most, n)
	}
	return most
}

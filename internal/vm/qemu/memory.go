package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/reservation"
)

// FreeMemory is how much memory, in bytes, this host can give guests: what is
// available, or what the control group or the batch job leaves, where that is
// less, without what is reserved for others; and all that it could give if nothing else
// used any. 0: unknown.
func FreeMemory(others []reservation.Reservation) (free, all int64) {
	return freeMemory("/", os.Getenv, others)
}

// freeMemory is FreeMemory of a host whose files are below a root.
func freeMemory(root string, env func(string) string, others []reservation.Reservation) (free, all int64) {
	free, err := meminfo(root, "MemAvailable")
	if err != nil {
		return 0, 0
	}
	all, err = meminfo(root, "MemTotal")
	if err != nil {
		return 0, 0
	}
	for _, p := range others {
		free -= p.Open()
	}
	if left, most, ok := groupLeaves(root, others); ok {
		free, all = min(free, left), min(all, most)
	}
	if granted := allocated(env); granted > 0 { // which not every Slurm enforces by a group
		all = min(all, granted)
		for _, p := range others {
			if p.Job == reservation.Job(env) {
				granted -= p.Bytes
			}
		}
		free = min(free, granted)
	}
	return max(free, 1), all // 0 would be unknown
}

// FreeHugePages is how much of this host's memory is in free huge pages, in
// bytes, and the size of one.
func FreeHugePages() (free, page int64) {
	page, _ = meminfo("/", "Hugepagesize")
	raw, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(raw), "HugePages_Free:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		free, _ = strconv.ParseInt(fields[0], 10, 64)
	}
	return free * page, page
}

// meminfo is a line of /proc/meminfo, in bytes.
func meminfo(root, key string) (int64, error) {
	raw, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), key+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("/proc/meminfo has no %s", key)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// allocated is what Slurm has given the job on this host, in bytes; 0: it says
// nothing, or the whole host's.
func allocated(env func(string) string) int64 {
	if mib, err := strconv.ParseInt(env("SLURM_MEM_PER_NODE"), 10, 64); err == nil && mib > 0 {
		return mib << 20
	}
	each, err1 := strconv.ParseInt(env("SLURM_MEM_PER_CPU"), 10, 64)
	cpus, err2 := strconv.ParseInt(env("SLURM_CPUS_ON_NODE"), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return each * cpus << 20
}

// hierarchy is where a version of control groups keeps what memory counts.
type hierarchy struct {
	mount, line, limit, usage string
	// cache are the lines of memory.stat whose pages are given up for others.
	cache []string
}

// hierarchies are those of control groups, version 2 and 1. line is what comes
// before the own group in /proc/self/cgroup.
func hierarchies() []hierarchy {
	return []hierarchy{
		{"sys/fs/cgroup", "0::", "memory.max", "memory.current", []string{"inactive_file", "active_file"}},
		{"sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}},
	}
}

// groupLeaves is what the limits of this process's control groups, and of those
// above them, leave, and the lowest of these limits. Reservations of others count where
// those who made them are in the same group.
func groupLeaves(root string, others []reservation.Reservation) (left, limit int64, limited bool) {
	raw, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0, 0, false
	}
	left, limit = 1<<62, 1<<62
	for _, h := range hierarchies() {
		for _, own := range h.groups(string(raw)) {
			// Inside a container the group's name may be the host's: then only
			// those above are found, of which the topmost is the container's.
			for dir := own; ; dir = filepath.Dir(dir) {
				if rest, most, ok := h.leaves(filepath.Join(root, h.mount, dir)); ok {
					for _, p := range others {
						if h.within(p, dir) {
							rest -= p.Open()
						}
					}
					left, limit, limited = min(left, rest), min(limit, most), true
				}
				if dir == "/" || dir == "." {
					break
				}
			}
		}
	}
	return left, limit, limited
}

// groups are those of this hierarchy in the text of a /proc/PID/cgroup.
func (h hierarchy) groups(text string) (groups []string) {
	for line := range strings.Lines(text) {
		if _, own, found := strings.Cut(strings.TrimSpace(line), h.line); found {
			groups = append(groups, own)
		}
	}
	return groups
}

// within reports whether what was reserved counts in a group of this hierarchy.
func (h hierarchy) within(p reservation.Reservation, dir string) bool {
	return slices.ContainsFunc(h.groups(p.Groups), func(group string) bool {
		return dir == "/" || group == dir || strings.HasPrefix(group, dir+"/")
	})
}

// leaves is what one group's limit leaves, and that limit.
func (h hierarchy) leaves(dir string) (left, limit int64, limited bool) {
	most, err := readNumber(filepath.Join(dir, h.limit)) // "max" is no number
	if err != nil || most >= 1<<60 {                     // version 1 has a huge one for none
		return 0, 0, false
	}
	used, err := readNumber(filepath.Join(dir, h.usage))
	if err != nil {
		return 0, 0, false
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, c := range h.cache {
			if bytes, err := strconv.ParseInt(value, 10, 64); key == c && err == nil {
				used -= bytes
			}
		}
	}
	return max(most-max(used, 0), 0), most, true
}

func readNumber(file string) (int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}

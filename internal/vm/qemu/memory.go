package qemu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FreeMemory is how much memory, in bytes, this host can give a guest: what is
// available, or what the control group (of a batch job, say) leaves, where that
// is less; 0 when unknown.
func FreeMemory() int64 {
	free := int64(0)
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "MemAvailable:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		if kib, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			free = kib << 10
		}
	}
	if left, ok := groupLeaves(); ok {
		free = min(free, left)
	}
	return free
}

// groupLeaves is what the limits of this process's control group, and of those
// above it, leave (cgroup v2).
func groupLeaves() (int64, bool) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	_, own, found := strings.Cut(string(raw), "0::")
	if !found {
		return 0, false
	}
	own, _, _ = strings.Cut(own, "\n")
	least, limited := int64(1)<<62, false
	for dir := own; ; dir = filepath.Dir(dir) {
		most, errMost := readNumber(filepath.Join("/sys/fs/cgroup", dir, "memory.max"))
		used, errUsed := readNumber(filepath.Join("/sys/fs/cgroup", dir, "memory.current"))
		if errMost == nil && errUsed == nil {
			least, limited = min(least, max(most-used, 0)), true
		}
		if dir == "/" || dir == "." {
			return least, limited
		}
	}
}

func readNumber(file string) (int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}

package pid1

import (
	"os"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// signalAll signals every process of the container but ourselves. As PID 1 of
// a PID namespace that is everyone; elsewhere only our descendants may be hit.
func signalAll(sig unix.Signal) {
	if os.Getpid() == 1 {
		sendSignal(-1, sig)
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		sendSignal(pid, sig)
	}
}

// sendSignal signals a process, or a group, which may have ended just now.
func sendSignal(pid int, sig unix.Signal) { core.BestEffort(unix.Kill(pid, sig)) }

// descendants walks the process tree below pid by /proc.
func descendants(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name in parentheses may hold anything: the fields start after it.
		rest := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(rest) > 1 {
			if parent, err := strconv.Atoi(rest[1]); err == nil {
				children[parent] = append(children[parent], child)
			}
		}
	}
	var found []int
	for next := children[pid]; len(next) > 0; {
		found = append(found, next...)
		var below []int
		for _, c := range next {
			below = append(below, children[c]...)
		}
		next = below
	}
	return found
}

package podman

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// pauses are the directories in which podman notes the process that holds an ordinary
// user's namespaces for the next podman: it starts one for whatever it is asked, and leaves
// it behind.
func pauses() []string {
	uid := os.Getuid()
	var dirs []string
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", uid), filepath.Join(os.TempDir(), fmt.Sprintf("podman-run-%d", uid))} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

const pauseFile = "libpod/tmp/pause.pid"

// pause gives that process; 0: there is none. A note of another user's does not count: in
// /tmp he may have been first.
func pause(dir string) int {
	own, err := fsutil.OpenOwn(dir)
	if err != nil {
		return 0
	}
	defer own.Close()
	raw, err := own.ReadFile(pauseFile, 64)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // the number may be another's by now
	if err != nil || !strings.HasPrefix(string(name), "podman") && !strings.HasPrefix(string(name), "catatonit") {
		return 0
	}
	return pid
}

// leavingNoPause does something that may have podman start such a process, and ends it
// as podman itself does, where there was none before.
func leavingNoPause(do func()) {
	before := map[string]int{}
	for _, dir := range pauses() {
		before[dir] = pause(dir)
	}
	do()
	for _, dir := range pauses() {
		if pid := pause(dir); pid != 0 && before[dir] == 0 {
			core.BestEffort(unix.Kill(pid, unix.SIGKILL)) // gone is success
			if own, err := fsutil.OpenOwn(dir); err == nil {
				core.BestEffort(own.RemoveAll(pauseFile)) // podman knows a stale one
				own.Close()
			}
		}
	}
}

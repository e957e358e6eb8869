package podman

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pauses are the places where podman notes the process that holds an ordinary user's
// namespaces for the next podman: it starts one for whatever it is asked, and leaves
// it behind.
func pauses() []string {
	uid := os.Getuid()
	var files []string
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", uid), filepath.Join(os.TempDir(), fmt.Sprintf("podman-run-%d", uid))} {
		if dir != "" {
			files = append(files, filepath.Join(dir, "libpod/tmp/pause.pid"))
		}
	}
	return files
}

// pause gives that process; 0: there is none.
func pause(file string) int {
	raw, err := os.ReadFile(file)
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
	for _, file := range pauses() {
		before[file] = pause(file)
	}
	do()
	for _, file := range pauses() {
		if pid := pause(file); pid != 0 && before[file] == 0 {
			unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // gone is success
			os.Remove(file)              //nolint:errcheck // podman knows a stale one
		}
	}
}
